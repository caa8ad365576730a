//! The RPM package.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result};

use super::{
    source::Source,
    tree::{DOCUMENTS, Tree, ZSH, is_configuration},
};
use crate::{run, target};

/// Completions of zsh, where distributions with RPM have them.
const ZSH_OF_RPM: &str = "usr/share/zsh/site-functions/_ratelimit";

/// Builds the package below `folder`.
pub(super) fn build(source: &Source, tree: &Tree, folder: &Path, package: &Path) -> Result<()> {
    let top = folder.join("rpm");
    target::renew(&top)?;
    let spec = top.join("ratelimit.spec");
    fs::write(&spec, text(source, tree)?).context("cannot write the specification")?;
    let define = |name: &str, value: &str| ["--define".to_owned(), format!("{name} {value}")];
    let mut build = Command::new("rpmbuild");
    build.args(["-bb", "--quiet", "--target", "x86_64-linux"]);
    for (name, value) in [
        ("_topdir", top.display().to_string().as_str()),
        ("_dbpath", top.join("db").display().to_string().as_str()),
        ("_buildhost", "ratelimit"),
        ("_build_id_links", "none"),
        ("_binary_payload", "w6.xzdio"),
        ("debug_package", "%{nil}"),
        ("__os_install_post", "%{nil}"),
        ("use_source_date_epoch_as_buildtime", "1"),
        ("clamp_mtime_to_source_date_epoch", "1"),
    ] {
        build.args(define(name, value));
    }
    run::run(build.arg(spec).env("SOURCE_DATE_EPOCH", &source.epoch))?;
    let built = top.join("RPMS/x86_64").join(package.file_name().context("the package has no name")?);
    fs::copy(&built, package).with_context(|| format!("rpmbuild has not made {}", built.display()))?;
    Ok(())
}

/// Returns the specification. All files are there already.
fn text(source: &Source, tree: &Tree) -> Result<String> {
    let part = |name: &str| source.script(name);
    let (instances, installed, upgraded) = (part("instances")?, part("installed")?, part("upgraded")?);
    let (removing, removed) = (part("removing")?, part("removed")?);
    let mut files = String::new();
    for file in tree.files()? {
        let file = if file == ZSH { ZSH_OF_RPM } else { &file };
        let kind = if is_configuration(file) {
            "%config(noreplace) "
        } else if is_licence(file) {
            // An installation without documents has licences too.
            "%license "
        } else if file.starts_with(DOCUMENTS) || file.starts_with("usr/share/man/") {
            "%doc "
        } else {
            ""
        };
        files += &format!("{kind}/{file}\n");
    }
    let (version, commit, root) = (source.version, &source.commit, tree.root.display());
    Ok(format!(
        "Name: ratelimit
Version: {version}
Release: 1
Summary: Limits packets and bytes of each source, in the kernel
License: (MIT OR Apache-2.0) AND (MIT OR GPL-2.0-only)
AutoReqProv: no
Requires: libc.so.6(GLIBC_2.17)(64bit)
Requires(post): /usr/sbin/groupadd, /usr/sbin/useradd, /usr/bin/getent

%description
ratelimit limits how many packets and bytes each source may send to this host.
Its program runs at the XDP hook, before the network stack sees a packet. Limits
change while traffic flows. The installation limits nothing.

Built from commit {commit}.

%install
mkdir -p %{{buildroot}}/usr/share/zsh/site-functions
cp --archive {root}/. %{{buildroot}}
mv %{{buildroot}}/{ZSH} %{{buildroot}}/{ZSH_OF_RPM}
rmdir %{{buildroot}}/usr/share/zsh/vendor-completions

%post
set -e
{instances}{installed}if [ \"$1\" -gt 1 ]; then
{upgraded}fi

%preun
set -e
{instances}if [ \"$1\" -eq 0 ]; then
{removing}fi

%postun
set -e
if [ \"$1\" -eq 0 ]; then
{removed}fi

%files
%defattr(-,root,root,-)
%dir /etc/ratelimit
%dir /usr/share/ratelimit
%dir /usr/share/doc/ratelimit
{files}"
    ))
}

fn is_licence(file: &str) -> bool {
    let name = file.strip_prefix(DOCUMENTS).unwrap_or_default();
    name.starts_with("/LICENSE") || name == "/copyright"
}
