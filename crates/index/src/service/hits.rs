//! Reads the entities of a page of hits, bounded in bytes: a thousand hits of a megabyte are not one answer.

use std::collections::HashMap;
use std::io;

use windlass_core::entity::Fields;
use windlass_core::id::EntityNo;
use windlass_core::store::EntityRecord;

use super::{Entities, EntityError};

/// Bytes of fields on a page. The page ends before the hit that exceeds them; the first hit is always shown.
const PAGE_BYTES: usize = 4 << 20;
/// Entities read at once.
const SLICE: usize = 16;

impl Entities {
    /// The entities by number, and how many of the numbers were read. The others do not fit on the page.
    pub(super) async fn rows(
        &self,
        numbers: &[EntityNo],
    ) -> Result<(HashMap<EntityNo, EntityRecord>, usize), EntityError> {
        let (mut rows, mut bytes) = (HashMap::new(), 0);
        for (n, slice) in numbers.chunks(SLICE).enumerate() {
            let found = self.store().entities_numbered(slice).await?;
            rows.extend(found.into_iter().map(|row| (row.no, row)));
            for (place, number) in slice.iter().enumerate() {
                bytes += rows.get(number).and_then(|row| row.fields.as_ref()).map_or(0, size);
                let read = n * SLICE + place;
                if bytes > PAGE_BYTES && read > 0 {
                    return Ok((rows, read));
                }
            }
        }
        Ok((rows, numbers.len()))
    }
}

/// The length of the fields as JSON.
fn size(fields: &Fields) -> usize {
    struct Counter(usize);

    impl io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let mut counter = Counter(0);
    // Writing to a counter cannot fail.
    let _ = serde_json::to_writer(&mut counter, fields);
    counter.0
}
