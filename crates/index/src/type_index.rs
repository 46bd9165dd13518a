//! The documents of one type in memory: words, vectors and the fields that filters read.
//!
//! Owns document numbers. A document is dead once its entity was changed or deleted. Dead documents are ignored, and
//! removed when there are many. Never reads a store.

use std::sync::Arc;

use foldhash::HashMap;
use windlass_core::TypeSpec;
use windlass_core::entity::{Fields, parts};
use windlass_core::id::EntityNo;

use crate::keyword::{Keywords, MOST_DOCUMENTS};
use crate::values::{FieldRow, Values};
use crate::vector::{Vector, Vectors};

/// Removing dead documents copies the index once, so it waits until one in this many is dead.
const DEAD_SHARE: usize = 4;
/// Fewer dead documents than this are never removed.
const LEAST_DEAD: usize = 1_000;

pub(crate) struct TypeIndex {
    pub(crate) spec: Arc<TypeSpec>,
    pub(crate) keywords: Keywords,
    pub(crate) vectors: Vectors,
    pub(crate) values: Values,
    pub(crate) documents: Vec<Document>,
    numbers: HashMap<EntityNo, u32>,
    /// Words in live documents.
    pub(crate) words: u64,
}

pub(crate) struct Document {
    pub(crate) no: EntityNo,
    pub(crate) id: Box<str>,
    /// The first bytes of the id. Most comparisons need no more, which saves a pointer read.
    pub(crate) head: u64,
    pub(crate) version: u64,
    pub(crate) alive: bool,
    /// Has a vector, possibly of an older content.
    pub(crate) placed: bool,
    /// The vector is of the current content.
    pub(crate) indexed: bool,
    pub(crate) row: FieldRow,
}

/// An entity parsed for the index, outside the lock.
pub(crate) struct IndexEntry {
    pub(crate) no: EntityNo,
    pub(crate) id: String,
    pub(crate) version: u64,
    pub(crate) content: Content,
    pub(crate) vector: Option<Vector>,
    pub(crate) indexed: bool,
}

/// What changed in an entity.
pub(crate) enum Content {
    Gone,
    /// This version is in the index already; only its vector may be new.
    Known,
    New(Fields),
}

impl TypeIndex {
    pub(crate) fn new(spec: Arc<TypeSpec>, dimension: usize) -> TypeIndex {
        TypeIndex {
            spec,
            keywords: Keywords::default(),
            vectors: Vectors::new(dimension),
            values: Values::default(),
            documents: Vec::new(),
            numbers: HashMap::default(),
            words: 0,
        }
    }

    pub(crate) fn number(&self, no: EntityNo) -> Option<u32> {
        self.numbers.get(&no).copied()
    }

    /// Live documents.
    pub(crate) fn count(&self) -> usize {
        self.numbers.len()
    }

    pub(crate) fn has(&self, no: EntityNo, version: u64) -> bool {
        self.number(no).is_some_and(|doc| self.documents[doc as usize].version == version)
    }

    pub(crate) fn indexed(&self) -> usize {
        self.documents.iter().filter(|document| document.alive && document.indexed).count()
    }

    pub(crate) fn apply(&mut self, entry: IndexEntry) {
        let old = self.number(entry.no);
        let fields = match (entry.content, old) {
            (Content::Gone, _) => return self.kill(old),
            (Content::Known, Some(doc)) => return self.place(doc, entry.vector.as_ref(), entry.indexed),
            (Content::Known, None) => return,
            (Content::New(fields), _) => fields,
        };
        self.kill(old);
        if self.documents.len() >= MOST_DOCUMENTS {
            self.clear_dead();
        }
        if self.documents.len() >= MOST_DOCUMENTS {
            let most = MOST_DOCUMENTS;
            return tracing::error!(entity_type = %self.spec.name, most, "the index of this type is full: an entity is not searched");
        }
        let doc = self.documents.len() as u32;
        let texts = parts(&self.spec, &fields);
        self.keywords.push(texts.iter().map(|part| (part.text, part.weight)));
        self.words += u64::from(self.keywords.length(doc));
        self.vectors.push(&Vector::zero(0));
        let row = self.values.row(&fields);
        self.documents.push(Document {
            no: entry.no,
            head: head(&entry.id),
            id: entry.id.into(),
            version: entry.version,
            alive: true,
            placed: false,
            indexed: false,
            row,
        });
        self.numbers.insert(entry.no, doc);
        self.place(doc, entry.vector.as_ref(), entry.indexed);
    }

    fn place(&mut self, doc: u32, vector: Option<&Vector>, indexed: bool) {
        let document = &mut self.documents[doc as usize];
        document.indexed = indexed;
        document.placed = vector.is_some();
        if let Some(vector) = vector {
            self.vectors.set(doc, vector);
        }
    }

    fn kill(&mut self, doc: Option<u32>) {
        let Some(doc) = doc else { return };
        let document = &mut self.documents[doc as usize];
        document.alive = false;
        self.numbers.remove(&document.no);
        self.words -= u64::from(self.keywords.length(doc));
        let dead = self.documents.len() - self.numbers.len();
        if dead > LEAST_DEAD && dead > self.documents.len() / DEAD_SHARE {
            self.clear_dead();
        }
    }

    fn clear_dead(&mut self) {
        let mut next = 0;
        let renumber: Vec<Option<u32>> = self
            .documents
            .iter()
            .map(|document| {
                document.alive.then(|| {
                    next += 1;
                    next - 1
                })
            })
            .collect();
        self.keywords.retain(&renumber);
        self.vectors.retain(|doc| renumber[doc as usize].is_some());
        self.documents.retain(|document| document.alive);
        for number in self.numbers.values_mut() {
            if let Some(new) = renumber[*number as usize] {
                *number = new;
            }
        }
    }
}

/// The first eight bytes of the id as a number with the same order.
fn head(id: &str) -> u64 {
    let mut first = [0; 8];
    let taken = id.len().min(first.len());
    first[..taken].copy_from_slice(&id.as_bytes()[..taken]);
    u64::from_be_bytes(first)
}
