//! Postgres over TLS: the server's identity is verified.

use std::path::Path;

use windlass_core::Store;
use windlass_store_postgres::{Options, PostgresStore};
use windlass_testkit::postgres::Server;

async fn refused(url: &str) -> String {
    match PostgresStore::connect(url, Options::default()).await {
        Ok(_) => panic!("{url} was taken"),
        Err(error) => {
            let causes =
                std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
            causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verify_full_accepts_only_the_named_server() {
    let directory = tempfile::tempdir().unwrap();
    let server = tokio::task::block_in_place(|| Server::with_tls(directory.path()));
    let (right, wrong) = (server.authority("authority"), server.authority("stranger"));
    let with =
        |url: &str, mode: &str, roots: &Path| format!("{url}?sslmode={mode}&sslrootcert={}", roots.display());
    let address = server.url();
    let named = address.replace("127.0.0.1", "localhost");

    let store =
        PostgresStore::connect(&with(&named, "verify-full", &right), Options::default()).await.unwrap();
    store.migrate_up(None).await.unwrap();
    store.close().await;

    let error = refused(&with(&named, "verify-full", &wrong)).await;
    assert!(error.contains("UnknownIssuer"), "{error}");
    let error = refused(&with(&named, "verify-ca", &wrong)).await;
    assert!(error.contains("UnknownIssuer"), "{error}");
    // The certificate is for a name, and the address is not that name.
    let error = refused(&with(&address, "verify-full", &right)).await;
    assert!(error.contains("not valid for name"), "{error}");
    let error = refused(&format!("{named}?sslmode=disable")).await;
    assert!(error.contains("no encryption"), "{error}");
}
