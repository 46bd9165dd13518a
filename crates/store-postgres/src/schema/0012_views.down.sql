drop view windlass.delayed_jobs_dlq;
drop view windlass.delayed_jobs;
drop view windlass.embedding_queue;
drop view windlass.indexing_queue;
drop view windlass.ended_jobs;
drop view windlass.open_jobs;
