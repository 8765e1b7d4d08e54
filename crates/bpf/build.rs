//! Compiles every program of `programs/` and writes its skeleton.

use std::path::{Path, PathBuf};
use std::{env, fs};

use libbpf_cargo::SkeletonBuilder;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=include");
    println!("cargo:rerun-if-changed=programs");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    for entry in fs::read_dir("programs")? {
        let name = entry?.file_name().into_string().map_err(|_| "a folder's name is not text")?;
        let source = Path::new("programs").join(&name).join(format!("{name}.bpf.c"));
        SkeletonBuilder::new()
            .source(&source)
            .clang_args(["-Iinclude", "-mcpu=v3", "-Wall", "-Werror"])
            .build_and_generate(out.join(format!("{name}.skel.rs")))
            .map_err(|error| {
                format!("{}: {error:#} (needs clang 14 or newer)", source.display())
            })?;
    }
    Ok(())
}
