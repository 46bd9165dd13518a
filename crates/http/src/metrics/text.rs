//! The Prometheus text format: HELP and TYPE before each family, escaped values, one label on every series.

use std::fmt::Write;

pub(super) struct Text {
    out: String,
    application: String,
}

impl Text {
    pub(super) fn new(application: &str) -> Text {
        Text { out: String::with_capacity(16 * 1024), application: application.to_owned() }
    }

    pub(super) fn gauge(&mut self, name: &str, help: &str) {
        self.family(name, "gauge", help);
    }

    pub(super) fn counter(&mut self, name: &str, help: &str) {
        self.family(name, "counter", help);
    }

    pub(super) fn histogram(&mut self, name: &str, help: &str) {
        self.family(name, "histogram", help);
    }

    pub(super) fn family(&mut self, name: &str, kind: &str, help: &str) {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        // Writing to a string cannot fail.
        let _ = writeln!(self.out, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    pub(super) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.out.push_str(name);
        self.out.push_str("{application=\"");
        push_escaped(&mut self.out, &self.application);
        self.out.push('"');
        for (label, value) in labels {
            self.out.push(',');
            self.out.push_str(label);
            self.out.push_str("=\"");
            push_escaped(&mut self.out, value);
            self.out.push('"');
        }
        let _ = writeln!(self.out, "}} {value}");
    }

    /// `counts` per bucket, the open one last. The format requires cumulative counts.
    pub(super) fn buckets(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        bounds: &[f64],
        counts: &[u64],
        sum: f64,
    ) {
        let bucket = format!("{name}_bucket");
        let mut seen = 0;
        for (n, count) in counts.iter().enumerate() {
            seen += count;
            let bound = bounds.get(n).map_or("+Inf".to_owned(), f64::to_string);
            let labels: Vec<(&str, &str)> = labels.iter().copied().chain([("le", bound.as_str())]).collect();
            self.sample(&bucket, &labels, seen as f64);
        }
        self.sample(&format!("{name}_sum"), labels, sum);
        self.sample(&format!("{name}_count"), labels, seen as f64);
    }

    pub(super) fn into_string(self) -> String {
        self.out
    }
}

fn push_escaped(out: &mut String, value: &str) {
    for c in value.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_escaped_and_buckets_summed() {
        let mut text = Text::new("a\"b");
        text.histogram("t", "first\nsecond");
        text.buckets("t", &[("kind", "x\\\ny")], &[0.5, 1.0], &[1, 2, 3], 4.5);
        let lines: Vec<String> = text.into_string().lines().map(str::to_owned).collect();
        assert_eq!(lines[0], "# HELP t first\\nsecond");
        assert_eq!(lines[1], "# TYPE t histogram");
        assert_eq!(lines[2], r#"t_bucket{application="a\"b",kind="x\\\ny",le="0.5"} 1"#);
        assert_eq!(lines[3], r#"t_bucket{application="a\"b",kind="x\\\ny",le="1"} 3"#);
        assert_eq!(lines[4], r#"t_bucket{application="a\"b",kind="x\\\ny",le="+Inf"} 6"#);
        assert_eq!(lines[5], r#"t_sum{application="a\"b",kind="x\\\ny"} 4.5"#);
        assert_eq!(lines[6], r#"t_count{application="a\"b",kind="x\\\ny"} 6"#);
    }
}
