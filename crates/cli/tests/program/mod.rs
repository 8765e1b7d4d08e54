//! The program under test, and what everything it says must keep to.

#![allow(dead_code, reason = "not every test needs all of it")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

pub mod private;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use quietcore_sys::sched;
use serde_json::Value;

/// `quietcore` with these arguments.
pub fn quietcore(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quietcore"));
    command.args(args);
    command
}

/// A CPU that this process may run on.
pub fn own_cpu() -> String {
    sched::affinity(sched::CALLER).unwrap().highest().unwrap().to_string()
}

/// The program where every user may run it, and the directory that it goes away with.
pub fn for_everybody() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = dir.path().join("quietcore");
    fs::copy(env!("CARGO_BIN_EXE_quietcore"), &program).unwrap();
    (dir, program)
}

/// What a command that ends with this code wrote to stdout.
pub fn stdout(command: &mut Command, code: i32) -> String {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{command:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// The run that a command printed, having checked that it keeps to the schema.
pub fn run(command: &mut Command, code: i32) -> Value {
    read(&stdout(command, code))
}

/// A run from its JSON, having checked that it keeps to the schema.
pub fn read(json: &str) -> Value {
    let run: Value = serde_json::from_str(json).unwrap();
    let schema: Value = serde_json::from_str(&quietcore_report::schema()).unwrap();
    if let Err(why) = conforms(&run, &schema, &schema) {
        panic!("not as the schema says: {why}");
    }
    run
}

/// Names of a run's sections, each once, in their order.
pub fn sections(run: &Value) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for name in run["sections"].as_array().unwrap().iter().map(|s| s["name"].as_str().unwrap()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Fails with this code, in one line that holds every part, and shows nothing.
pub fn refuses(command: &mut Command, code: i32, parts: &[&str]) {
    let output = command.output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{command:?}: {said}");
    assert!(output.stdout.is_empty(), "{command:?}");
    // What clap refuses is followed by a hint at --help.
    let line = said.lines().next().unwrap_or_default();
    assert!(said.lines().count() == 1 || line.starts_with("error: "), "{said}");
    for part in parts {
        assert!(line.contains(part), "`{part}` is missing: {said}");
    }
}

/// Whether a value is what a schema says. A keyword that is not understood here is an error: it
/// must not pass unread.
pub fn conforms(value: &Value, schema: &Value, root: &Value) -> Result<(), String> {
    let Some(keywords) = schema.as_object() else { return Ok(()) };
    for (keyword, said) in keywords {
        let holds = match keyword.as_str() {
            "title" | "description" | "format" | "$schema" | "$defs" | "default" => true,
            "$ref" => {
                let path = said.as_str().unwrap_or_default().trim_start_matches('#');
                conforms(value, root.pointer(path).ok_or("a $ref leads nowhere")?, root)?;
                true
            }
            "type" => match said {
                Value::Array(any) => any.iter().any(|name| is_a(value, name)),
                one => is_a(value, one),
            },
            "const" => value == said,
            "enum" => said.as_array().is_some_and(|any| any.contains(value)),
            "minimum" => value.as_f64().is_none_or(|v| Some(v) >= said.as_f64()),
            "minItems" => value.as_array().is_none_or(|v| Some(v.len() as u64) >= said.as_u64()),
            "maxItems" => value.as_array().is_none_or(|v| Some(v.len() as u64) <= said.as_u64()),
            "required" => said.as_array().into_iter().flatten().all(|name| {
                value.as_object().is_none_or(|v| v.contains_key(name.as_str().unwrap_or_default()))
            }),
            "anyOf" => alternatives(value, said, root) > 0,
            "oneOf" => alternatives(value, said, root) == 1,
            "items" | "prefixItems" | "properties" | "additionalProperties" => {
                parts(value, keyword, said, root)?;
                true
            }
            other => return Err(format!("keyword `{other}` is not known to this test")),
        };
        if !holds {
            let value: String = value.to_string().chars().take(200).collect();
            return Err(format!("{value} breaks `{keyword}: {said}`"));
        }
    }
    Ok(())
}

fn alternatives(value: &Value, schemas: &Value, root: &Value) -> usize {
    let schemas = schemas.as_array().into_iter().flatten();
    schemas.filter(|schema| conforms(value, schema, root).is_ok()).count()
}

fn parts(value: &Value, keyword: &str, said: &Value, root: &Value) -> Result<(), String> {
    match (keyword, value, said) {
        ("items", Value::Array(items), _) => {
            items.iter().try_for_each(|item| conforms(item, said, root))
        }
        ("prefixItems", Value::Array(items), Value::Array(schemas)) => {
            items.iter().zip(schemas).try_for_each(|(item, schema)| conforms(item, schema, root))
        }
        ("properties", Value::Object(fields), Value::Object(schemas)) => schemas
            .iter()
            .filter_map(|(name, schema)| Some((name, fields.get(name)?, schema)))
            .try_for_each(|(name, field, schema)| {
                conforms(field, schema, root).map_err(|why| format!("{name}: {why}"))
            }),
        // Here only of maps, which have no properties of their own.
        ("additionalProperties", Value::Object(fields), Value::Object(_)) => {
            fields.values().try_for_each(|field| conforms(field, said, root))
        }
        _ => Ok(()),
    }
}

fn is_a(value: &Value, name: &Value) -> bool {
    match name.as_str().unwrap_or_default() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        _ => false,
    }
}
