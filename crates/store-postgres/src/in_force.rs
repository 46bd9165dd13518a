//! What is in force of a queue: an operator's live value, else the configuration's. One expression each, for the registry, the
//! floor query and the audit alike, over a row `q` of queues.

/// An upper bound alone is an operator's word for no bounds.
macro_rules! in_force {
    (concurrency) => {
        "coalesce(q.live_concurrency, q.concurrency)"
    };
    (concurrency_min) => {
        "case when q.live_concurrency_max is null then q.concurrency_min else q.live_concurrency_min end"
    };
    (concurrency_max) => {
        "case when q.live_concurrency_max is null then q.concurrency_max
              when q.live_concurrency_min is not null then q.live_concurrency_max end"
    };
    (global_concurrency) => {
        "case when q.live_global_concurrency_set then q.live_global_concurrency else q.global_concurrency end"
    };
    (depth_cap) => {
        "case when q.live_depth_cap_set then q.live_depth_cap else q.depth_cap end"
    };
    (boost_after_us) => {
        "nullif(coalesce(q.live_boost_after_us, q.boost_after_us), 0)"
    };
}
pub(crate) use in_force;
