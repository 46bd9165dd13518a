//! Splits SQL text into words, literals, comments and the few symbols that matter.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Whitespace or a comment.
    Space,
    Word,
    /// In single quotes or dollar quotes.
    Literal,
    /// A name in double quotes.
    Quoted,
    /// `$1`.
    Value(usize),
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'t> {
    pub kind: Kind,
    pub text: &'t str,
}

impl Piece<'_> {
    pub fn is(&self, word: &str) -> bool {
        match self.kind {
            Kind::Word => self.text.eq_ignore_ascii_case(word),
            Kind::Other => self.text == word,
            _ => false,
        }
    }
}

/// Splits the whole text, in order. An unclosed literal or comment extends to the end; the database reports it.
pub fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut all: Vec<Piece<'_>> = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        // `E'…'` is a literal with escapes; the E is already its own piece.
        let escapes = all.last().is_some_and(|piece| piece.is("e"));
        let (kind, length) = first(rest, escapes);
        let (piece, behind) = rest.split_at(length);
        all.push(Piece { kind, text: piece });
        rest = behind;
    }
    all
}

/// The first piece and its length in bytes.
fn first(text: &str, escapes: bool) -> (Kind, usize) {
    let bytes = text.as_bytes();
    let second = bytes.get(1).copied().unwrap_or(0);
    let run = |fits: fn(char) -> bool| text.find(|c| !fits(c)).unwrap_or(text.len());
    match bytes[0] {
        b'-' if second == b'-' => (Kind::Space, text.find('\n').unwrap_or(text.len())),
        b'/' if second == b'*' => (Kind::Space, comment(bytes)),
        b'\'' => (Kind::Literal, quoted(bytes, b'\'', escapes)),
        b'"' => (Kind::Quoted, quoted(bytes, b'"', false)),
        b'$' if second.is_ascii_digit() => {
            let digits = bytes[1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            (Kind::Value(text[1..=digits].parse().unwrap_or(usize::MAX)), digits + 1)
        }
        b'$' => dollars(text).map_or((Kind::Other, 1), |length| (Kind::Literal, length)),
        byte if byte.is_ascii_whitespace() => (Kind::Space, run(|c| c.is_ascii_whitespace())),
        byte if is_word(char::from(byte)) || byte >= 0x80 => (Kind::Word, run(is_word)),
        _ => (Kind::Other, 1),
    }
}

/// Includes numbers: no name starts with a digit in either database.
fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii()
}

/// Length including the closing quote. A doubled quote is part of the text.
fn quoted(bytes: &[u8], quote: u8, escapes: bool) -> usize {
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if escapes => at += 2,
            byte if byte == quote && bytes.get(at + 1) == Some(&quote) => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Postgres allows nested comments.
fn comment(bytes: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0);
    while at < bytes.len() {
        match &bytes[at..] {
            [b'/', b'*', ..] => (at, depth) = (at + 2, depth + 1),
            [b'*', b'/', ..] => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    bytes.len()
}

/// `$$…$$` or `$tag$…$tag$`.
fn dollars(text: &str) -> Option<usize> {
    let tag = text[1..].find('$').map(|end| &text[..end + 2])?;
    if !tag[1..tag.len() - 1].chars().all(is_word) {
        return None;
    }
    let inside = &text[tag.len()..];
    Some(inside.find(tag).map_or(text.len(), |end| tag.len() + end + tag.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<(Kind, &str)> {
        let all = pieces(text);
        assert_eq!(all.iter().map(|piece| piece.text).collect::<String>(), text, "nothing is lost");
        all.into_iter()
            .filter(|piece| piece.kind != Kind::Space)
            .map(|piece| (piece.kind, piece.text))
            .collect()
    }

    #[test]
    fn literals_and_comments_end_in_the_right_place() {
        use Kind::*;
        assert_eq!(kinds("'a''b' c"), [(Literal, "'a''b'"), (Word, "c")]);
        assert_eq!(kinds(r"E'a\'b' c"), [(Word, "E"), (Literal, r"'a\'b'"), (Word, "c")]);
        assert_eq!(kinds(r"'a\' c"), [(Literal, r"'a\'"), (Word, "c")], "no escape without the E");
        assert_eq!(kinds(r#""a""b;" c"#), [(Quoted, r#""a""b;""#), (Word, "c")]);
        assert_eq!(kinds("$$a;'$$ c"), [(Literal, "$$a;'$$"), (Word, "c")]);
        assert_eq!(kinds("$x$ $$ ; $x$;"), [(Literal, "$x$ $$ ; $x$"), (Other, ";")]);
        assert_eq!(kinds("$12+$1"), [(Value(12), "$12"), (Other, "+"), (Value(1), "$1")]);
        assert_eq!(kinds("-- ' ;\nc /* ' /* ; */ */ d"), [(Word, "c"), (Word, "d")]);
        assert_eq!(kinds("'never closed ; c"), [(Literal, "'never closed ; c")]);
        assert_eq!(kinds("größe_1.x"), [(Word, "größe_1"), (Other, "."), (Word, "x")]);
        assert_eq!(kinds("'ü' $ü 1e5"), [(Literal, "'ü'"), (Other, "$"), (Word, "ü"), (Word, "1e5")]);
    }
}
