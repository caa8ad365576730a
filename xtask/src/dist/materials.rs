//! The bill of materials: the libraries in the binary, in the format CycloneDX.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::{binary::TARGET, source::Source};
use crate::run;

/// Packages of the sources whose code is in the binary: the program, and what it loads into the kernel.
const PRODUCT: [&str; 2] = ["ratelimit-user", "ratelimit-ebpf"];

/// A library in the binary.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) version: String,
    /// The licence as an SPDX expression.
    pub(super) license: String,
    /// The folder of its sources.
    pub(super) folder: PathBuf,
    /// The hash of its package. Absent for a package of these sources.
    pub(super) sha256: Option<String>,
    /// Name and version of the libraries that it uses.
    uses: BTreeSet<(String, String)>,
}

impl Part {
    fn key(&self) -> (String, String) {
        (self.name.clone(), self.version.clone())
    }
}

/// Returns the libraries in the binary, in the order of their names.
pub(super) fn parts(source: &Source) -> Result<Vec<Part>> {
    let linked = linked(source)?;
    let hashes = hashes(source)?;
    let mut cargo = run::cargo();
    cargo.current_dir(&source.root).args(["metadata", "--format-version=1", "--locked", "--filter-platform", TARGET]);
    let metadata: Value = serde_json::from_str(&run::output(&mut cargo)?).context("cargo printed no JSON")?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut keys = BTreeMap::new();
    for package in list(&metadata["packages"]) {
        keys.insert(text(&package["id"]), (text(&package["name"]), text(&package["version"])));
    }
    let mut uses: BTreeMap<(String, String), BTreeSet<(String, String)>> = BTreeMap::new();
    for node in list(&metadata["resolve"]["nodes"]) {
        let used = list(&node["dependencies"]);
        let used = used.iter().filter_map(|id| keys.get(&text(id))).filter(|key| linked.contains(*key)).cloned();
        keys.get(&text(&node["id"])).map(|key| uses.insert(key.clone(), used.collect()));
    }
    let mut parts = Vec::new();
    for package in list(&metadata["packages"]) {
        let key = (text(&package["name"]), text(&package["version"]));
        if !linked.contains(&key) {
            continue;
        }
        let manifest = PathBuf::from(text(&package["manifest_path"]));
        parts.push(Part {
            license: text(&package["license"]).replace('/', " OR "),
            folder: manifest.parent().context("a package has no folder")?.to_owned(),
            sha256: hashes.get(&key).cloned(),
            uses: uses.remove(&key).unwrap_or_default(),
            name: key.0,
            version: key.1,
        });
    }
    parts.sort_by_key(Part::key);
    Ok(parts)
}

/// Returns name and version of each library that is linked. Those that only run in the compiler are left out.
fn linked(source: &Source) -> Result<BTreeSet<(String, String)>> {
    let mut cargo = run::cargo();
    cargo.current_dir(&source.root).args(["tree", "--locked", "--edges=normal,no-proc-macro", "--prefix=none"]);
    cargo.args(["--format={p}", "--target", TARGET]);
    cargo.args(PRODUCT.iter().flat_map(|name| ["--package", name]));
    Ok(run::output(&mut cargo)?.lines().filter_map(package).collect())
}

/// Reads a line such as `serde v1.0.229 (*)`.
fn package(line: &str) -> Option<(String, String)> {
    let mut words = line.split(' ');
    Some((words.next()?.to_owned(), words.next()?.strip_prefix('v')?.to_owned()))
}

/// Returns the hashes of packages in Cargo.lock.
fn hashes(source: &Source) -> Result<BTreeMap<(String, String), String>> {
    let text = fs::read_to_string(source.root.join("Cargo.lock")).context("cannot read Cargo.lock")?;
    let lock: toml::Table = text.parse().context("cannot read Cargo.lock")?;
    let packages = lock.get("package").and_then(toml::Value::as_array).context("Cargo.lock has no packages")?;
    let read = |package: &toml::Value| {
        let field = |name: &str| package.get(name)?.as_str().map(str::to_owned);
        Some(((field("name")?, field("version")?), field("checksum")?))
    };
    Ok(packages.iter().filter_map(read).collect())
}

/// Returns the bill as JSON.
pub(super) fn bill(source: &Source, parts: &[Part]) -> Result<String> {
    let reference = |(name, version): &(String, String)| format!("pkg:cargo/{name}@{version}");
    let component = |part: &Part| {
        let mut component = json!({
            "type": "library",
            "bom-ref": reference(&part.key()),
            "purl": reference(&part.key()),
            "name": part.name,
            "version": part.version,
            "licenses": [{ "expression": part.license }],
        });
        if let Some(hash) = &part.sha256 {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": hash }]);
        }
        component
    };
    let is_product = |part: &&Part| part.name == PRODUCT[0];
    let product = parts.iter().find(is_product).context("the product is not among its parts")?;
    let dependency = |part: &Part| {
        let uses: Vec<_> = part.uses.iter().map(reference).collect();
        json!({ "ref": reference(&part.key()), "dependsOn": uses })
    };
    let mut about = component(product);
    about["type"] = json!("application");
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": source.time("%Y-%m-%dT%H:%M:%SZ")?,
            "component": about,
            "properties": [{ "name": "commit", "value": source.commit }],
        },
        "components": parts.iter().filter(|part| !is_product(part)).map(component).collect::<Vec<_>>(),
        "dependencies": parts.iter().map(dependency).collect::<Vec<_>>(),
    });
    Ok(serde_json::to_string_pretty(&bill)? + "\n")
}

#[cfg(test)]
mod tests {
    use super::package;

    #[test]
    fn lines_of_the_tree_are_read() {
        let key = |name: &str, version: &str| Some((name.to_owned(), version.to_owned()));
        assert_eq!(package("serde v1.0.229"), key("serde", "1.0.229"));
        assert_eq!(package("serde v1.0.229 (*)"), key("serde", "1.0.229"));
        assert_eq!(package("ratelimit-user v0.1.0 (/somewhere)"), key("ratelimit-user", "0.1.0"));
        assert_eq!(package(""), None);
    }
}
