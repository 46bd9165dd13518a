//! Who decides about an entity type: servers write configured types, operators own all others, and read-only verbs
//! write nothing.

use serde_json::json;

use crate::place::{Place, Server, postgres};

/// Both databases in turn; `name` is that of the schema.
fn both(name: &str) -> impl Iterator<Item = String> {
    ["sqlite://x.db".to_owned(), postgres(name)].into_iter()
}

/// The address with an absolute path.
fn absolute(place: &Place, database: &str) -> String {
    database.replace("sqlite://", &format!("sqlite://{}/", place.path().display()))
}

fn serve(place: &Place, database: &str) -> Server {
    place.serve(&["serve", "--migrate", "--database", database])
}

fn end(place: &Place, database: &str) {
    place.run(&["migrate", "down", "--to", "0", "--database", database]).ok();
}

#[test]
fn an_operators_type_survives_readers_and_restarts() {
    for database in both("types_document") {
        let place = Place::new();
        let server = serve(&place, &database);
        let spec = json!({ "text": ["name"], "strategy": "sync", "on_delete": "batch" });
        let (status, put) = server.send("PUT", "/v1/types/document", &spec);
        assert_eq!(status, 200, "{put}");
        assert_eq!(server.send("PUT", "/v1/entities/document/a", &json!({ "name": "oak" })).0, 201);
        let read = |args: &[&str]| place.run(&[args, &["--database", &database]].concat());
        read(&["search", "document", "oak"]).ok().says(&["oak"]);
        read(&["types"]).ok().says(&["name", "sync", "batch"]);
        read(&["entities", "get", "document", "a"]).ok();
        assert_eq!(server.send("GET", "/v1/types/document", &json!(null)).1, put);
        assert_eq!(server.send("GET", "/v1/types", &json!(null)).1["items"][0], put);
        server.stop();
        let server = serve(&place, &database);
        assert_eq!(server.send("GET", "/v1/types/document", &json!(null)).1, put);
        server.stop();
        assert_eq!(read(&["audit", "--json"]).ok().json()["items"].as_array().unwrap().len(), 1);
        end(&place, &database);
    }
}

#[test]
fn a_server_follows_types_written_by_another_process() {
    for database in both("types_follow") {
        let (place, other) = (Place::new(), Place::new());
        let database = absolute(&place, &database);
        let (here, there) = (serve(&place, &database), serve(&other, &database));
        assert_eq!(there.send("GET", "/v1/types/document", &json!(null)).1["strategy"], json!(null));
        assert_eq!(here.send("PUT", "/v1/types/document", &json!({ "text": ["name"] })).0, 200);
        let (_, seen) = there.send("GET", "/v1/types/document", &json!(null));
        assert_eq!(seen["text"], json!([{ "name": "name", "weight": 1 }]));
        // Either process embeds and searches by the new fields.
        let name = json!({ "name": "walnut", "text": "plum" });
        assert_eq!(there.send("PUT", "/v1/entities/document/a?strategy=sync", &name).0, 201);
        for server in [&here, &there] {
            let found = |query: &str| {
                let question = json!({ "type": "document", "query": query, "mode": "keyword" });
                server.send("POST", "/v1/search", &question).1["total"].clone()
            };
            assert_eq!((found("walnut"), found("plum")), (json!(1), json!(0)));
        }
        here.stop();
        there.stop();
        end(&place, &database);
    }
}

#[test]
fn a_configured_type_follows_the_configuration() {
    for database in both("types_configured") {
        let (place, other) = (Place::new(), Place::new());
        let database = absolute(&place, &database);
        place.write(
            "windlass.toml",
            "[entities.document]\ntext = \"title, body\"\nstrategy = \"sync\"\n[entities.product]\ntext = \"name\"\n",
        );
        let server = serve(&place, &database);
        other.run(&["types", "--database", &database]).ok().says(&["title, body", "product"]);
        let (status, problem) = server.send("PUT", "/v1/types/document", &json!({ "strategy": "batch" }));
        assert_eq!((status, &problem["code"]), (409, &json!("type_configured")), "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains("[entities.document]"), "{problem}");
        // Repeating it changes nothing.
        assert_eq!(server.send("PUT", "/v1/types/product", &json!({ "text": ["name"] })).0, 200);
        server.stop();
        // A server without that configuration keeps the change. The next one with it writes the configured type again
        // and says so.
        let stranger = serve(&other, &database);
        let (status, put) = stranger.send("PUT", "/v1/types/product", &json!({ "text": ["label"] }));
        assert_eq!(status, 200, "{put}");
        stranger.stop();
        place.run(&["types", "--database", &database]).ok().says(&["label"]);
        serve(&place, &database).stop();
        place.run(&["types", "show", "product", "--database", &database]).ok().says(&["name"]);
        let acts = place.run(&["audit", "--json", "--database", &database]).ok().json();
        let who = |n: usize| (acts["items"][n]["actor"].clone(), acts["items"][n]["subject"].clone());
        assert_eq!(who(0), (json!("configuration"), json!("type/product")), "{acts}");
        assert_eq!(who(1), (json!("http"), json!("type/product")), "{acts}");
        assert_eq!(acts["items"].as_array().unwrap().len(), 2, "{acts}");
        end(&place, &database);
    }
}

#[test]
fn text_fields_that_cannot_change_are_reported_with_a_remedy() {
    for database in both("types_text") {
        let place = Place::new();
        let line = "{\"id\":\"a\",\"title\":\"oak\",\"text\":\"tree\"}\n";
        place.run(&["migrate", "up", "--database", &database]).ok();
        place.pipe(&["index", "-", "--database", &database], line).ok();
        place.write("windlass.toml", "[entities.document]\ntext = \"title^2, body\"\n");
        for verb in ["serve", "worker"] {
            place.run(&[verb, "--database", &database]).fails(
                1,
                &[
                    "text fields of `document` are title^2, body",
                    "indexed by title, text",
                    "[entities.document]",
                ],
            );
        }
        place.run(&["search", "document", "oak", "--database", &database]).ok().says(&["oak"]);
        end(&place, &database);
    }
}

/// A restore needs empty tables and would refuse a single row left by a reader.
#[test]
fn read_only_verbs_write_nothing() {
    let source = Place::new();
    source.run(&["enqueue", "NOOP", "--in", "1h"]).ok();
    source.run(&["backup", "a.backup"]).ok();
    let copy = source.path().join("a.backup").display().to_string();
    for database in both("types_reading") {
        let place = Place::new();
        place.run(&["migrate", "up", "--database", &database]).ok();
        let variables = [("WINDLASS_BUDGETS__NEW__LIMIT", "3"), ("WINDLASS_QUEUES__MINE__CONCURRENCY", "2")];
        let read = |args: &[&str]| {
            place.run_env(&[args, &["--database", &database]].concat(), &variables);
        };
        for args in [
            &["queues"][..],
            &["kinds"],
            &["budgets"],
            &["jobs"],
            &["jobs", "count"],
            &["types"],
            &["types", "show", "document"],
            &["search", "document", "x"],
            &["entities", "get", "document", "a"],
            &["entities", "list", "document"],
            &["schedules"],
            &["audit"],
            &["top", "--json"],
            &["doctor"],
            &["config", "show"],
            &["cleanup"],
        ] {
            read(args);
        }
        place.run(&["types", "--database", &database]).ok().says(&["document", "title, text"]);
        place.run(&["search", "document", "x", "--database", &database]).ok().says(&["nothing found"]);
        place.run(&["restore", &copy, "--database", &database]).ok();
        end(&place, &database);
    }
}
