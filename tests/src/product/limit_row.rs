//! A limit in the product's JSON.

use serde_json::Value;

/// Turns the policy of a limit into options: its text for each rate, 0 for no burst, and the name of the policy.
///
/// # Panics
///
/// If the row has no policy.
#[must_use]
pub fn flat(mut row: Value) -> Value {
    let policy = row["policy"].take();
    assert_eq!(policy["kind"], "limit", "{row}");
    let rates: Vec<_> =
        policy["packets"].as_array().unwrap().iter().map(|rate| rate["text"].as_str().unwrap()).collect();
    row["packets"] = if rates.is_empty() { Value::Null } else { rates.join(",").into() };
    row["bytes"] = policy["bytes"]["text"].clone();
    row["burst"] = policy["burst"].as_u64().unwrap_or_default().into();
    for field in ["algorithm", "throttle", "over_limit", "parents", "ban"] {
        row[field] = policy[field].clone();
    }
    row["policy"] = policy["name"].clone();
    row
}
