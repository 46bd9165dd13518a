//! The pages in a real browser.

use serde_json::{Value, json};
use windlass_testkit::browser::{Browser, Page};

use crate::world::World;

async fn world() -> World {
    let mut world = World::new().await;
    world.add_entities().await;
    world.work().await;
    world
}

fn open<'a>(browser: &'a Browser, world: &World, path: &str, width: u32) -> Page<'a> {
    browser.open(&format!("http://{}{path}", world.address), width)
}

/// Nothing is wider than the page.
fn fits(page: &Page<'_>) {
    let wide = page.eval("document.documentElement.scrollWidth - document.documentElement.clientWidth");
    assert_eq!(wide, json!(0), "the page is wider than the window");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_api_reference_is_readable() {
    let world = world().await;
    let browser = Browser::start();
    let page = open(&browser, &world, "/docs", 360);
    page.wait("document.querySelector('#shapes .shape, .notice')");
    let document = world.get("/openapi.json").await.is(200);
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            shows_operation(&page, method, path, operation);
        }
    }
    let shapes = page.eval("[...document.querySelectorAll('.shape')].map((one) => one.id.slice(6))");
    let named: Vec<&String> = document["components"]["schemas"].as_object().unwrap().keys().collect();
    assert_eq!(shapes, json!(named));
    page.eval("document.querySelectorAll('details').forEach((one) => { one.open = true })");
    fits(&page);
    let broken = "[...document.querySelectorAll('.fields td.name code')]
        .filter((name) => name.getClientRects().length !== 1).map((name) => name.textContent)";
    assert_eq!(page.eval(broken), json!([]), "names that are broken over two lines");
    assert_eq!(browser.complaints(), Vec::<String>::new());
    world.end().await;
}

/// Shows its parameters, the fields of its body with descriptions, a command with an example, and its responses.
fn shows_operation(page: &Page<'_>, method: &str, path: &str, operation: &Value) {
    let name = operation["operationId"].as_str().unwrap();
    let text = page.text(&format!("document.getElementById('{name}')?.textContent"));
    let mut wanted =
        vec![path.to_owned(), method.to_uppercase(), operation["summary"].as_str().unwrap().to_owned()];
    let texts = |value: &Value| value.as_str().map(str::to_owned);
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        wanted.extend(texts(&parameter["name"]));
        wanted.extend(texts(&parameter["description"]));
    }
    for (media, content) in operation["requestBody"]["content"].as_object().into_iter().flatten() {
        wanted.push(media.clone());
        for (field, schema) in content["schema"]["properties"].as_object().into_iter().flatten() {
            wanted.push(field.clone());
            wanted.extend(texts(&schema["description"]));
        }
        let example = &content["example"];
        wanted.push(texts(example).unwrap_or_else(|| example.to_string()));
    }
    wanted.extend(operation["responses"].as_object().unwrap().keys().cloned());
    for part in wanted {
        assert!(text.contains(&part), "{method} {path} does not show `{part}`:\n{text}");
    }
}

async fn search(page: &Page<'_>, words: &str, entity_type: &str) {
    page.eval(&format!(
        "document.getElementById('words').value = {}; document.getElementById('type').value = {};
         document.getElementById('hits').replaceChildren();
         document.getElementById('search').requestSubmit()",
        json!(words),
        json!(entity_type)
    ));
    page.wait("document.querySelector('#hits .hits, #hits .empty, #hits .notice')");
}

const HITS: &str = "document.getElementById('hits').innerText";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn search_shows_results_and_opens_one() {
    let world = world().await;
    let kettle = json!({ "title": "Copper kettle", "text": "Boils water on any stove", "price": 40, "maker": { "country": "Japan" } });
    world.with_body("PUT", "/v1/entities/document/kettle?strategy=sync", kettle).await.is(201);
    // Without a title, and with a character that reverses the direction of text.
    let nameless = json!({ "text": "a kettle \u{202e}elttek a" });
    world.with_body("PUT", "/v1/entities/document/odd?strategy=sync", nameless).await.is(201);
    let browser = Browser::start();
    let page = open(&browser, &world, "/#/search", 360);
    page.wait("document.getElementById('words')");
    search(&page, "kettle", "").await;
    let text = page.text(HITS);
    assert!(text.starts_with("2 found, in "), "{text}");
    assert_eq!(text.matches("Copper kettle").count(), 1, "the title is not repeated: {text}");
    assert!(text.contains("Boils water on any stove") && text.contains("\nodd\n"), "{text}");
    assert!(text.contains("a kettle \\u{202e}elttek a") && !text.contains('\u{202e}'), "{text}");
    page.eval("[...document.querySelectorAll('#hits button')].find((one) => one.textContent === 'Copper kettle').click()");
    page.wait("document.querySelector('#detail[open] dl')");
    let detail = page.text("document.getElementById('detail').innerText");
    for part in
        ["document/kettle", "indexed", "version", "Boils water on any stove", "40", "{\"country\":\"Japan\"}"]
    {
        assert!(detail.contains(part), "`{part}` is missing in {detail}");
    }
    page.press_escape();
    page.wait("document.activeElement.textContent === 'Copper kettle'");
    search(&page, "kettle", "nothing-like-it").await;
    let problem = world.post("/v1/search", json!({ "type": "nothing-like-it", "query": "x" })).await.json();
    assert_eq!(page.text(HITS), format!("Search failed: {}", problem["detail"].as_str().unwrap()));
    let only = json!({ "text": ["name"] });
    world.with_body("PUT", "/v1/types/empty", only).await;
    search(&page, "kettle", "empty").await;
    assert_eq!(page.text(HITS), "Nothing matches.");
    fits(&page);
    assert_eq!(browser.complaints(), Vec::<String>::new());
    world.end().await;
}

const ROWS: &str =
    "[...document.querySelectorAll('#jobs tbody tr')].map((row) => row.innerText.replace(/\\s+/g, ' '))";

fn rows(page: &Page<'_>) -> Vec<String> {
    serde_json::from_value(page.eval(ROWS)).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn boxes_do_not_push_jobs_off_the_list() {
    let world = world().await;
    let job = world.enqueue(json!({ "kind": "NOOP" })).await;
    let lines: String = (0..40).map(|n| format!("{{\"id\":\"d{n}\",\"text\":\"entity {n}\"}}\n")).collect();
    world
        .send("POST", "/v1/entities/document/bulk", &[("Content-Type", "application/x-ndjson")], &lines)
        .await
        .is(200);
    let browser = Browser::start();
    let page = open(&browser, &world, "/", 1600);
    page.wait("document.querySelector('#jobs tbody tr')");
    let shown = rows(&page);
    assert!(shown.len() == 1 && shown[0].contains(&job), "{shown:?}");
    page.eval("document.getElementById('quiet').click()");
    page.wait("document.querySelectorAll('#jobs tbody tr').length === 25");
    assert!(rows(&page).iter().any(|row| row.contains("document/d39")), "{:?}", rows(&page));
    let colours =
        "[...document.querySelectorAll('.card')].filter((card) => card.innerText.startsWith('INDEX_'))
        .map((card) => getComputedStyle(card).borderLeftColor)";
    assert_eq!(page.eval(colours), json!(["rgb(42, 157, 157)", "rgb(138, 143, 60)"]));
    // On older pages the list does not update and says so; there is a link back.
    page.eval("document.getElementById('more').click()");
    page.wait("document.querySelectorAll('#jobs tbody tr').length === 41");
    assert!(page.text("document.getElementById('paused').innerText").contains("paused while you look back"));
    page.eval("document.getElementById('newest').click()");
    page.wait("document.querySelectorAll('#jobs tbody tr').length === 25 && document.getElementById('paused').hidden");
    page.eval("const kind = document.getElementById('kind'); kind.value = 'NOOP'; kind.dispatchEvent(new Event('change'))");
    page.wait("document.querySelectorAll('#jobs tbody tr').length === 1");
    assert_eq!(browser.complaints(), Vec::<String>::new());
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_followed_to_its_end() {
    let world = world().await;
    let body = json!({ "kind": "SLEEP", "payload": { "ms": 3_000 }, "delay": "1h" });
    let job = world.enqueue(body).await;
    let browser = Browser::start();
    let page = open(&browser, &world, "/", 1600);
    page.wait("document.querySelector('#jobs tbody tr')");
    page.eval("document.querySelector('#jobs tbody tr').click()");
    let state =
        |name: &str| page.wait(&format!("document.getElementById('detail-state').innerText === '{name}'"));
    state("scheduled");
    let again =
        "[...document.querySelectorAll('#detail button')].find((one) => one.textContent === 'Run now')";
    page.eval(&format!("const again = {again}; again.focus(); again.click()"));
    // Without a reload, the dialog shows that the job runs and then that it is done.
    state("running");
    assert_eq!(
        page.text("document.activeElement.id"),
        "close",
        "the button is gone, the focus stays in the dialog"
    );
    state("completed");
    page.press_escape();
    page.wait(&format!("document.activeElement.dataset.job === '{job}'"));
    fits(&page);
    assert_eq!(browser.complaints(), Vec::<String>::new());
    world.end().await;
}
