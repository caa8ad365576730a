//! Messages of the libraries that read JSON and TOML, in plain words.

/// Returns an error of JSON with its place.
pub fn json(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.rsplit_once(" at line ").map_or(&*text, |(text, _)| text);
    format!("line {}, column {}: {}", error.line(), error.column(), plain(text))
}

/// Returns a message in plain words. What stands before the words of the library stays.
pub fn plain(text: &str) -> String {
    type Rewrite = fn(&str) -> String;
    let rewrites: [(&str, Rewrite); 10] = [
        ("invalid type: ", expected),
        ("invalid value: ", expected),
        ("missing field `", |rest| format!("{} is missing", unquoted(rest))),
        ("unknown field `", |rest| {
            let (name, known) = known(rest);
            format!("{name}: unknown key: {known}")
        }),
        ("unknown variant `", |rest| {
            let (found, known) = known(rest);
            format!("{known}, not {found}")
        }),
        ("duplicate field `", |rest| format!("{} is there twice: remove one", unquoted(rest))),
        ("EOF while parsing", |_| "the text ends too early".to_owned()),
        ("trailing characters", |_| "there is text behind the end".to_owned()),
        ("cannot extend value of type ", |_| {
            "this name has a value already, so it cannot be a table too: rename or remove one of the two".to_owned()
        }),
        ("recursion limit exceeded", |_| "there are too many brackets within each other".to_owned()),
    ];
    let found = rewrites.iter().filter_map(|(start, rewrite)| Some((text.find(start)?, start.len(), rewrite)));
    match found.min_by_key(|(place, ..)| *place) {
        Some((place, length, rewrite)) => {
            let (before, rest) = text.split_at(place);
            format!("{before}{}", rewrite(rest.get(length..).unwrap_or_default()))
        }
        None => text.to_owned(),
    }
}

/// Returns a name that the library does not know, and what it expected. The name can be any text.
fn known(rest: &str) -> (&str, String) {
    let place = ["`, expected ", "`, there are no fields"].iter().filter_map(|start| rest.rfind(start)).max();
    match place.and_then(|place| rest.split_at_checked(place)) {
        Some((name, known)) => (name, known.trim_start_matches("`, ").replace('`', "")),
        None => (unquoted(rest), "expected another one".to_owned()),
    }
}

/// Returns a text without the quotation mark of the library behind it.
fn unquoted(text: &str) -> &str {
    text.strip_suffix('`').unwrap_or(text)
}

/// Turns `integer `17`, expected a string` around.
fn expected(rest: &str) -> String {
    let (found, wanted) = rest.rsplit_once(", expected ").unwrap_or((rest, "something else"));
    let found = match found {
        "map" => "an object",
        "sequence" => "a list",
        "unit value" => "null",
        // A text has quotes of its own, and can have any character.
        text if text.starts_with("string ") => text,
        other => other.split_once(" `").map_or(other, |(_, value)| unquoted(value)),
    };
    let wanted = match wanted {
        "a string" => "text in quotes",
        "a map" => "an object",
        "a sequence" => "a list",
        "a boolean" => "true or false",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" => "a whole number",
        other if other.starts_with("struct ") => "an object",
        other => other,
    };
    format!("expected {wanted}, not {}", found.strip_prefix("string ").unwrap_or(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_library_become_plain_ones() {
        for (text, expected) in [
            ("user: invalid type: integer `17`, expected a string", "user: expected text in quotes, not 17"),
            ("invalid type: string \"a, expected b\", expected u64", "expected a whole number, not \"a, expected b\""),
            ("invalid type: map, expected a sequence", "expected a list, not an object"),
            ("invalid type: sequence, expected struct Whole", "expected an object, not a list"),
            ("invalid type: null, expected a string", "expected text in quotes, not null"),
            ("invalid type: string \"a`b\", expected u64", "expected a whole number, not \"a`b\""),
            ("invalid value: character ```, expected u64", "expected a whole number, not `"),
            ("missing field `version`", "version is missing"),
            (
                "unknown field `a`, expected `b`, there are no fields",
                "a`, expected `b: unknown key: there are no fields",
            ),
            ("unknown field ``, expected one of `a`, `b`", ": unknown key: expected one of a, b"),
            ("unknown field `a``, expected `b`", "a`: unknown key: expected b"),
            ("unknown variant `a`, expected `b` or `c`", "expected b or c, not a"),
            ("unknown field `a`, expected `b` or `c`", "a: unknown key: expected b or c"),
            ("duplicate field `a`", "a is there twice: remove one"),
            ("EOF while parsing an object", "the text ends too early"),
            (
                "cannot extend value of type array with a dotted key",
                "this name has a value already, so it cannot be a table too: rename or remove one of the two",
            ),
            ("expected value", "expected value"),
        ] {
            assert_eq!(plain(text), expected);
        }
        let error = serde_json::from_str::<u32>("\n  -1").unwrap_err();
        assert_eq!(json(&error), "line 2, column 4: expected a whole number from 0 to 4294967295, not -1");
    }
}
