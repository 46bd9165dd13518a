//! Entities on the command line: loading, searching, counting.

use serde_json::json;

use crate::place::Place;

#[test]
fn facets_are_counted_and_shown() {
    let place = Place::new();
    let line =
        |n: usize| format!(r#"{{"id":"d{n}","text":"a blue lamp","price":{},"tags":["new","n{n}"]}}"#, n % 2);
    place.write("lamps.ndjson", (0..101).map(|n| line(n) + "\n").collect::<String>());
    place.run(&["index", "lamps.ndjson", "--type", "document"]).ok().says(&["101 entities accepted"]);
    let search = ["search", "document", "lamps", "--limit", "1", "--facet", "price", "--facet", "tags"];
    let found = place.run(&[&search[..], &["--json"]].concat()).ok().json();
    assert_eq!(found["facets"]["price"], json!([{ "value": 0, "count": 51 }, { "value": 1, "count": 50 }]));
    assert_eq!(found["facets"]["tags"][0], json!({ "value": "new", "count": 101 }));
    assert_eq!(found["facets_more"], json!(["tags"]));
    place.run(&search).ok().says(&[
        "price\n      51  0\n      50  1\n",
        "tags\n     101  new\n",
        "…  and more",
    ]);
    let none = ["search", "document", "chairs", "--mode", "keyword", "--facet", "price"];
    place.run(&none).ok().says(&["nothing found\nprice\n"]);
    place.run(&["search", "document", "x", "--facet", ""]).fails(2, &["facets[0]: must be 1–256 bytes"]);
}

#[test]
fn filters_are_read_in_a_natural_notation() {
    let place = Place::new();
    place.write(
        "shops.ndjson",
        r#"{"id":"text","zip":"8001","price":8,"text":"shop"}
{"id":"number","zip":8001,"price":12.5,"text":"shop"}
{"id":"other","zip":"9000","price":3,"text":"shop","at":{"city":"Chur"}}
"#,
    );
    place.run(&["index", "shops.ndjson"]).ok();
    let found = |filters: &[&str]| -> Vec<String> {
        let mut args = vec!["search", "document", "shop", "--mode", "keyword", "--json"];
        for filter in filters {
            args.extend(["--filter", filter]);
        }
        let hits = place.run(&args).ok().json()["hits"].clone();
        let mut ids: Vec<String> =
            hits.as_array().unwrap().iter().map(|hit| hit["id"].as_str().unwrap().to_owned()).collect();
        ids.sort();
        ids
    };
    assert_eq!(found(&["zip=8001"]), ["number", "text"]);
    assert_eq!(found(&[r#"zip="8001""#]), ["text"]);
    assert_eq!(found(&["zip!=8001"]), ["other"]);
    assert_eq!(found(&["price>=8"]), ["number", "text"]);
    assert_eq!(found(&["price>8"]), ["number"]);
    assert_eq!(found(&["price<8"]), ["other"]);
    assert_eq!(found(&["price<=8", "zip=8001"]), ["text"]);
    assert_eq!(found(&["at.city=Chur"]), ["other"]);
}

#[test]
fn a_load_reports_pending_entities_and_refused_lines() {
    let place = Place::new();
    place.write("two.ndjson", "{\"id\":\"a\",\"text\":\"one\"}\n{\"id\":\"b\",\"text\":\"two\"}\n");
    let last = |ran: crate::place::Ran| ran.ok().out.lines().last().unwrap_or_default().to_owned();
    let line = last(place.run(&["index", "two.ndjson"]));
    assert!(line.starts_with("no worker is running: `windlass serve` makes 2 entities searchable"), "{line}");
    let line = last(place.run(&["index", "two.ndjson", "--wait"]));
    assert!(line.starts_with("2 entities searchable in "), "{line}");
    let server = place.serve(&["serve"]);
    let line = last(place.run(&["index", "two.ndjson"]));
    assert!(line.starts_with("2 entities accepted in "), "{line}");
    drop(server);
    let long = "x".repeat(600);
    let lines = format!("{{\"id\":\"{long}\"}}\n{{nope\n{{\"id\":[]}}\n{{\"id\":\"c\"}}\n");
    let ran = place.pipe(&["index", "-"], &lines).fails(1, &["3 of 4 lines", "the others are written"]);
    let refused: Vec<&str> = ran.err.lines().filter_map(|line| line.strip_prefix("  line ")).collect();
    assert_eq!(refused.len(), 3, "{}", ran.err);
    assert!(refused[0].starts_with("1: id: "), "{refused:?}");
    assert!(
        refused[1].starts_with("2: is not a JSON object") && refused[1].ends_with("at column 2"),
        "{refused:?}"
    );
    assert_eq!(refused[2], "3: id: must be text");
    place.write("empty.ndjson", "\n");
    assert_eq!(
        place.run(&["index", "empty.ndjson"]).ok().out.lines().next(),
        Some("there was nothing to index")
    );
    place.run(&["index", "--explain"]).ok().says(&["create of document: async (nothing says otherwise)"]);
}

#[test]
fn invalid_options_are_wrong_usage() {
    let place = Place::new();
    place.run(&["migrate", "up"]).ok();
    place.run(&["entities"]).fails(2, &["<TYPE> is missing: windlass entities list <TYPE>"]);
    let put = |fields: &str| place.run(&["entities", "put", "document", "a", fields]);
    put("[1]").fails(2, &["body: must be an object"]);
    put("{").fails(2, &["cannot write the entity"]);
    put(r#"{"":1}"#).fails(2, &["a name must not be empty"]);
    place.write("list.json", "[1]");
    put("@list.json").fails(1, &["body: must be an object"]);
    place
        .run(&["entities", "history", "nope", "a"])
        .fails(1, &["`entities history` failed", "no type `nope`"]);
    let help = |args: &[&str]| place.run(&[args, &["--help"]].concat()).ok().out;
    for noun in ["entities", "types"] {
        assert_ne!(help(&[noun]).lines().next(), help(&[noun, "list"]).lines().next(), "{noun}");
    }
}

/// Clients remove `..` from a path, so nothing can have that name, locally or over HTTP.
#[test]
fn local_and_remote_calls_refuse_the_same_ids() {
    let place = Place::new();
    let server = place.serve(&["serve"]);
    let url = format!("http://{}", server.address());
    for id in [".", ".."] {
        for args in [&["entities", "put", "document", id, "{}"][..], &["entities", "get", "document", id]] {
            let near = place.run(args).fails(2, &[&format!("nothing can be called `{id}`")]);
            let far = place.run(&[args, &["--server", &url]].concat());
            assert_eq!((near.code, near.err), (far.code, far.err), "{args:?}");
        }
        let line = format!("{{\"id\":\"{id}\"}}\n");
        place.pipe(&["index", "-"], &line).fails(1, &["id: must not be `.` or `..`"]);
    }
    place.run(&["entities", "put", "document", "...", "{}", "--server", &url]).ok();
    place.run(&["entities", "get", "document", "..."]).ok();
}
