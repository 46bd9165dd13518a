drop view windlass_delayed_jobs_dlq;
drop view windlass_delayed_jobs;
drop view windlass_embedding_queue;
drop view windlass_indexing_queue;
drop view windlass_ended_jobs;
drop view windlass_open_jobs;
