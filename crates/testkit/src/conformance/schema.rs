//! Migrations up and down, several processes at once, and closing a handle.

use windlass_core::JobState;

use super::Harness;

pub async fn migrating_twice_changes_nothing(h: Harness) {
    let known = h.store.migrations().await.unwrap();
    assert!(!known.is_empty());
    assert!(known.windows(2).all(|pair| pair[0].version < pair[1].version), "oldest first");
    assert!(known.iter().all(|m| m.applied_at.is_some() && !m.name.is_empty()));
    assert_eq!(h.store.migrate_up(None).await.unwrap(), Vec::<i64>::new());
    assert_eq!(h.store.migrations().await.unwrap(), known);
    h.store.check_schema().await.unwrap();
}

pub async fn down_and_up_again(h: Harness) {
    h.put(h.job()).await;
    let versions: Vec<i64> = h.store.migrations().await.unwrap().iter().map(|m| m.version).collect();
    let mut reverted = h.store.migrate_down(0).await.unwrap();
    reverted.sort_unstable();
    assert_eq!(reverted, versions);
    assert!(h.store.check_schema().await.is_err(), "a missing schema is refused");
    assert!(h.store.migrations().await.unwrap().iter().all(|m| m.applied_at.is_none()));
    assert_eq!(h.store.migrate_up(None).await.unwrap(), versions);
    h.store.check_schema().await.unwrap();
    assert_eq!(h.count(JobState::Pending).await, 0, "down takes the data with it");
}

pub async fn several_processes_migrate_at_once(h: Harness) {
    let second = h.open().await;
    let versions: Vec<i64> = h.store.migrations().await.unwrap().iter().map(|m| m.version).collect();
    h.store.migrate_down(0).await.unwrap();
    let (one, two) = tokio::join!(h.store.migrate_up(None), second.migrate_up(None));
    let mut applied = one.unwrap();
    applied.extend(two.unwrap());
    applied.sort_unstable();
    assert_eq!(applied, versions, "each migration is applied once");
    second.check_schema().await.unwrap();
}

pub async fn a_closed_handle_fails(h: Harness) {
    let second = h.open().await;
    let id = h.put(h.job()).await;
    second.close().await;
    assert!(second.now().await.is_err());
    assert!(second.enqueue(&[h.job()]).await.is_err());
    second.close().await;
    assert_eq!(h.state(id).await, JobState::Pending, "the other handle works on");
}
