//! Permits: how many jobs of this process may use a resource at once, and how many do.
//!
//! One pool per resource and client, so that several workers of one process share it. A permit is taken before the
//! claim of the job that needs it. It returns when it is dropped: when the job is settled, handed back or lost. Never
//! waits.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Every pool of a client, by the name of the resource.
#[derive(Default)]
pub(crate) struct Pools {
    by_name: Mutex<HashMap<String, Arc<Pool>>>,
}

impl Pools {
    /// The pool of a resource; sets its number of permits.
    pub(crate) fn get(&self, resource: &str, permits: u32) -> Arc<Pool> {
        let mut pools = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = || Arc::new(Pool { resource: resource.to_owned(), count: Mutex::default() });
        let pool = pools.entry(resource.to_owned()).or_insert_with(fresh).clone();
        pool.lock().permits = permits;
        pool
    }
}

pub(crate) struct Pool {
    pub(crate) resource: String,
    count: Mutex<Count>,
}

#[derive(Default)]
struct Count {
    permits: u32,
    /// May exceed `permits` after those were lowered.
    in_use: u32,
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, Count> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn free(&self) -> u32 {
        let count = self.lock();
        count.permits.saturating_sub(count.in_use)
    }

    /// As many as are free, at most `most`.
    pub(crate) fn take(self: &Arc<Pool>, most: u32) -> Vec<Permit> {
        let mut count = self.lock();
        let taken = count.permits.saturating_sub(count.in_use).min(most);
        count.in_use += taken;
        drop(count);
        (0..taken).map(|_| Permit(self.clone())).collect()
    }

    /// For a job that was leased before its kind needed the resource.
    pub(crate) fn take_anyway(self: &Arc<Pool>) -> Permit {
        self.lock().in_use += 1;
        Permit(self.clone())
    }
}

/// The right to use a resource, returned when it is dropped.
pub(crate) struct Permit(Arc<Pool>);

impl Permit {
    pub(crate) fn is_of(&self, pool: &Arc<Pool>) -> bool {
        Arc::ptr_eq(&self.0, pool)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.lock().in_use -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_permit_is_free_again() {
        let pools = Pools::default();
        let pool = pools.get("browser", 3);
        let two = pool.take(2);
        let rest = pools.get("browser", 3).take(9);
        assert_eq!((two.len(), rest.len(), pool.free()), (2, 1, 0), "one pool per resource");
        assert_eq!(pools.get("other", 5).free(), 5);
        drop(two);
        assert_eq!(pool.free(), 2);
    }

    #[test]
    fn lowering_takes_no_permit_away() {
        let pools = Pools::default();
        let pool = pools.get("browser", 3);
        let three = pool.take(3);
        pools.get("browser", 1);
        assert!(pool.take(1).is_empty());
        let one_more = pool.take_anyway();
        drop(three);
        assert_eq!(pool.free(), 0);
        drop(one_more);
        assert_eq!(pool.free(), 1);
    }
}
