//! All packages of some sources.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{binary, deb, image, rpm, source::Source, tarball, tree::Tree};
use crate::target;

/// Builds all packages of these sources below a folder.
pub(super) fn build(source: &Source, folder: &Path) -> Result<Vec<PathBuf>> {
    let binary = binary::build(source, folder)?;
    let tree = Tree::build(source, &binary, &folder.join("tree"))?;
    let packages = folder.join("packages");
    target::renew(&packages)?;
    let package = |name: String| packages.join(name);
    let (version, stem) = (source.version, format!("ratelimit-{}", source.version));
    let made = vec![
        package(format!("{stem}-x86_64-linux.tar.gz")),
        package(format!("ratelimit_{version}_amd64.deb")),
        package(format!("{stem}-1.x86_64.rpm")),
        package(format!("{stem}-x86_64.oci.tar")),
    ];
    tarball::build(source, &tree, &made[0])?;
    deb::build(source, &tree, folder, &made[1])?;
    rpm::build(source, &tree, folder, &made[2])?;
    image::build(source, &tree, folder, &made[3])?;
    Ok(made)
}
