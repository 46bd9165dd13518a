//! Indents JSON text without parsing its values, which would lose digits of long numbers.

const STEP: &str = "  ";

/// `text` must be JSON; anything else gets odd line breaks.
pub(crate) fn indented(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    let (mut depth, mut chars) = (0usize, text.chars().peekable());
    while let Some(c) = chars.next() {
        match c {
            '"' => string(&mut chars, &mut out),
            '{' | '[' => {
                out.push(c);
                while chars.next_if(|c| c.is_ascii_whitespace()).is_some() {}
                match chars.next_if(|c| matches!(c, '}' | ']')) {
                    Some(end) => out.push(end),
                    None => {
                        depth += 1;
                        line(&mut out, depth);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c if c.is_ascii_whitespace() => {}
            c => out.push(c),
        }
    }
    out
}

fn line(out: &mut String, depth: usize) {
    out.push('\n');
    out.push_str(&STEP.repeat(depth));
}

/// Copies up to the closing quote.
fn string(chars: &mut impl Iterator<Item = char>, out: &mut String) {
    out.push('"');
    let mut escaped = false;
    for c in chars {
        out.push(c);
        match c {
            '"' if !escaped => return,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn json_is_indented_like_serde_does_with_every_digit() {
        let value = json!({
            "a": [1, { "b": "x\"{[,:]}\\", "c": [] }, "\\"], "d": {}, "e": null, "f": [[true]], "g": "ä\n",
        });
        let pretty = serde_json::to_string_pretty(&value).unwrap();
        assert_eq!(indented(&value.to_string()), pretty);
        assert_eq!(indented(&pretty), pretty, "its own whitespace is replaced");
        let long = r#"{"n": 12345678901234567890123, "f": 0.10}"#;
        assert_eq!(indented(long), "{\n  \"n\": 12345678901234567890123,\n  \"f\": 0.10\n}");
        assert!(serde_json::from_str::<Value>(&indented(long)).is_ok());
    }
}
