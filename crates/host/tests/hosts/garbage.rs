//! Garbage in any file of a snapshot gives findings, never a panic.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{judge, names, snapshot};

#[test]
fn no_single_garbage_answer_makes_the_audit_panic() {
    let garbage = [
        json!(""),
        json!("\u{0}\u{ffff}"),
        json!("-1"),
        json!("99999999999999999999999999"),
        json!("a b\nc: d\n,,,--\n[[["),
        json!({"error": "denied"}),
        json!({"error": "Input/output error"}),
        json!(["", "x", "999999999999", "cpu", "state"]),
        json!({"x": [1]}),
        Value::Null,
    ];
    for name in names() {
        let host = snapshot(&name);
        let keys: Vec<String> = host.moments[0].keys().cloned().collect();
        // Every answer at once, and every 7th with another garbage: each key meets each in turn.
        for (shift, everything) in garbage.iter().enumerate() {
            let mut all = host.clone();
            let mut some = host.clone();
            for (index, key) in keys.iter().enumerate() {
                all.set(key, everything.clone());
                if index % 7 == shift % 7 {
                    some.set(key, garbage[(index + shift) % garbage.len()].clone());
                }
            }
            judge(all, Some("0-3"), Some(1));
            judge(some, None, None);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_mutilated_text_makes_the_audit_panic(
        picks in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), "\\PC{0,12}"), 1..30),
    ) {
        let mut host = snapshot("two-socket");
        let keys: Vec<String> = host.moments[0].keys().cloned().collect();
        for (key, at, insert) in picks {
            let key = key.get(&keys);
            if let Some(Value::String(text)) = host.moments[0].get(key) {
                let boundaries: Vec<usize> = text.char_indices().map(|(i, _)| i).chain([text.len()]).collect();
                let cut = *at.get(&boundaries);
                let mutilated = format!("{}{insert}", &text[..cut]);
                host.set(key, Value::String(mutilated));
            }
        }
        judge(host, None, Some(4711));
    }
}
