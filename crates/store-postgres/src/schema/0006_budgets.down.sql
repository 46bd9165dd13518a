drop view windlass.ai_usage_tracking;
drop table windlass.audit;
drop table windlass.budget_alerts;
drop table windlass.budget_costs;
drop table windlass.usage_ledger;
drop table windlass.reservations;
drop table windlass.budget_months;
drop table windlass.budgets;
