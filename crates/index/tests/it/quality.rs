//! The built-in embedding places similar texts near each other.

use windlass_index::embed::{Embedder, StaticTable};

/// A few everyday sentences; the benchmark data is not in the repository.
#[test]
fn similar_texts_are_nearer_than_unrelated_ones() {
    let table = StaticTable::load().unwrap();
    for (anchor, near, far) in [
        (
            "a man is playing a guitar",
            "someone plays a musical instrument",
            "the stock market fell on Monday",
        ),
        ("cheap flights to Paris", "low cost air travel to France", "how to prune an apple tree"),
        ("the cat sleeps on the sofa", "a kitten naps on a couch", "interest rates were raised"),
        ("broken laptop screen", "my notebook computer display is cracked", "a recipe for tomato soup"),
    ] {
        let vectors = table.embed(&[anchor, near, far]).unwrap();
        let (like, unlike) = (vectors[0].cosine(&vectors[1]), vectors[0].cosine(&vectors[2]));
        assert!(like > unlike + 0.1, "{anchor}: {like} against {unlike}");
    }
}

#[test]
fn a_text_without_known_words_has_the_zero_vector() {
    let table = StaticTable::load().unwrap();
    assert!(table.embed(&["", " \u{0} ", "\u{e000}"]).unwrap().iter().all(|vector| vector.is_zero()));
}
