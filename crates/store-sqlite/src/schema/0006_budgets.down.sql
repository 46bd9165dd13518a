drop view windlass_ai_usage_tracking;
drop table windlass_audit;
drop table windlass_budget_alerts;
drop table windlass_budget_costs;
drop table windlass_usage_ledger;
drop table windlass_reservations;
drop table windlass_budget_months;
drop table windlass_budgets;
