//! Migrations under load: the newest one is taken back and applied again while jobs come and go.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use windlass::{JobId, JobState};
use windlass_testkit::signal::{Seen, wait_until};

use crate::jobs::Append;
use crate::world::{World, wait_all_finished};
use crate::{count, on_both};

on_both! {
    async fn down_and_up_under_load(world: World) {
        let windlass = world.windlass().await;
        let workers = windlass.start().await.unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let producer = {
            let (windlass, stop) = (windlass.clone(), stop.clone());
            tokio::spawn(async move {
                let mut accepted: Vec<JobId> = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    if let Ok(enqueued) = windlass.enqueue(Append { ms: 0 }).await {
                        accepted.push(enqueued.id);
                    }
                }
                accepted
            })
        };
        let other = world.windlass().await;
        let store = other.client().store();
        let versions: Vec<i64> = store.migrations().await.unwrap().iter().map(|m| m.version).collect();
        assert!(versions.len() >= 2, "nothing can be taken back without losing the jobs");
        let below = versions[versions.len() - 2];
        for _ in 0..count(3, 30) {
            let before = world.entries().lines.len();
            assert_eq!(store.migrate_down(below).await.unwrap().len(), 1);
            assert_eq!(store.migrate_up(None).await.unwrap().len(), 1);
            wait_until("work to go on", Duration::from_secs(20), || async {
                Seen::when(world.entries().lines.len(), |lines| *lines > before)
            })
            .await;
        }
        stop.store(true, Ordering::Relaxed);
        let accepted = producer.await.unwrap();
        wait_all_finished(&other, Duration::from_secs(30)).await;
        assert!(!accepted.is_empty());
        for id in &accepted {
            let detail = store.job(*id).await.unwrap().expect("an accepted job is never lost");
            assert_eq!(detail.job.state, JobState::Completed);
        }
        workers.shutdown().await.unwrap();
        world.end().await;
    }
}
