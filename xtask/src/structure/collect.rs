//! Collects from the items of a module what it defines, imports and refers to.

use proc_macro2::{TokenStream, TokenTree};
use syn::{
    Attribute, Expr, ExprMethodCall, Ident, ImplItem, Item, ItemUse, Macro, Meta, Path, TraitItem, Type, UseTree,
    Visibility, spanned::Spanned as _, visit,
};

use super::module::{Call, Extension, Import, Module, ModuleId, Package, Reference};

/// Adds one item to a module; not for items that are modules.
pub(super) fn item(package: &mut Package, id: ModuleId, item: &Item) {
    if is_for_tests(attributes(item)) {
        return;
    }
    if let Item::Macro(definition) = item
        && let Some(name) = &definition.ident
    {
        let file = package.modules[id].file;
        package.macros.insert(plain(name), file);
    }
    let mut collector = Collector { module: &mut package.modules[id] };
    collector.module.items.extend(name(item));
    visit::Visit::visit_item(&mut collector, item);
}

/// An identifier without the `r#` of raw ones.
pub(super) fn plain(name: &Ident) -> String {
    let name = name.to_string();
    name.strip_prefix("r#").map_or(name.clone(), str::to_owned)
}

/// Whether only tests compile it: `#[cfg(test)]`, `#[cfg(all(test, …))]` or `#[test]`.
pub(super) fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("cfg") => {
            let words: Vec<_> = list.tokens.clone().into_iter().collect();
            match words.as_slice() {
                [TokenTree::Ident(only)] => only == "test",
                [TokenTree::Ident(all), TokenTree::Group(of)] if all == "all" => {
                    of.stream().into_iter().any(|word| matches!(word, TokenTree::Ident(word) if word == "test"))
                }
                _ => false,
            }
        }
        _ => false,
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// The name that an item defines.
fn name(item: &Item) -> Option<String> {
    Some(plain(match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    }))
}

struct Collector<'a> {
    module: &'a mut Module,
}

impl Collector<'_> {
    fn refer(&mut self, path: Vec<String>, line: usize) {
        self.module.references.push(Reference { path, line });
    }

    /// Collects the names of a `use`.
    fn import(&mut self, tree: &UseTree, before: &[String], is_public: bool) {
        let line = tree.span().start().line;
        let reference = |path: Vec<String>| Reference { path, line };
        let with = |name: &Ident| [before, &[plain(name)]].concat();
        let named = |segment: &Ident, name: String| {
            let path = if segment == "self" && !before.is_empty() { before.to_vec() } else { with(segment) };
            let name = if name == "self" { path.last().cloned().unwrap_or_default() } else { name };
            Import { name, from: reference(path), is_public }
        };
        match tree {
            UseTree::Path(path) => self.import(&path.tree, &with(&path.ident), is_public),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.import(tree, before, is_public)),
            UseTree::Glob(_) => self.module.globs.push(reference(before.to_vec())),
            UseTree::Name(name) => self.module.imports.push(named(&name.ident, plain(&name.ident))),
            UseTree::Rename(rename) => self.module.imports.push(named(&rename.ident, plain(&rename.rename))),
        }
    }

    /// Collects paths of two segments and more from tokens that are not parsed, as in the arguments of a macro.
    fn scan(&mut self, tokens: TokenStream) {
        let (mut path, mut line, mut joined): (Vec<String>, usize, usize) = (Vec::new(), 0, 0);
        for token in tokens {
            match token {
                TokenTree::Punct(mark) if mark.as_char() == ':' => joined += 1,
                TokenTree::Ident(word) => {
                    if joined != 2 {
                        self.end(&mut path, line);
                        line = word.span().start().line;
                    }
                    path.push(plain(&word));
                    joined = 0;
                }
                other => {
                    self.end(&mut path, line);
                    joined = 0;
                    match other {
                        TokenTree::Group(group) => self.scan(group.stream()),
                        TokenTree::Literal(text) => self.quoted(&text.to_string(), text.span().start().line),
                        _ => {}
                    }
                }
            }
        }
        self.end(&mut path, line);
    }

    fn end(&mut self, path: &mut Vec<String>, line: usize) {
        if path.len() > 1 {
            self.refer(std::mem::take(path), line);
        }
        path.clear();
    }

    /// Collects a path in quotes, as attributes have them: `with = "crate::units"`.
    fn quoted(&mut self, literal: &str, line: usize) {
        let text = literal.trim_matches('"');
        let is_path = text.chars().all(|letter| letter.is_alphanumeric() || matches!(letter, '_' | ':'));
        if is_path && ["crate::", "self::", "super::"].iter().any(|begin| text.starts_with(begin)) {
            self.refer(text.split("::").map(str::to_owned).collect(), line);
        }
    }
}

impl<'ast> visit::Visit<'ast> for Collector<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_for_tests(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let is_public = !matches!(item.vis, Visibility::Inherited);
        self.import(&item.tree, &[], is_public);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let functions = item.items.iter().filter_map(|item| match item {
            ImplItem::Fn(function) if !is_for_tests(&function.attrs) => Some(plain(&function.sig.ident)),
            _ => None,
        });
        let functions: Vec<_> = functions.collect();
        self.module.methods.extend(functions.iter().cloned());
        if item.trait_.is_none()
            && let Type::Path(of) = &*item.self_ty
        {
            let of = Reference { path: segments(&of.path), line: item.self_ty.span().start().line };
            self.module.extensions.push(Extension { of, functions });
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        let functions = item.items.iter().filter_map(|item| match item {
            TraitItem::Fn(function) => Some(plain(&function.sig.ident)),
            _ => None,
        });
        self.module.methods.extend(functions);
        visit::visit_item_trait(self, item);
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        let method = Reference { path: vec![plain(&call.method)], line: call.method.span().start().line };
        let on_self = matches!(&*call.receiver, Expr::Path(receiver) if receiver.path.is_ident("self"));
        self.module.calls.push(Call { method, on_self });
        visit::visit_expr_method_call(self, call);
    }

    fn visit_path(&mut self, path: &'ast Path) {
        self.refer(segments(path), path.span().start().line);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, invocation: &'ast Macro) {
        self.visit_path(&invocation.path);
        self.scan(invocation.tokens.clone());
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        match &attribute.meta {
            Meta::List(list) => self.scan(list.tokens.clone()),
            meta @ Meta::NameValue(_) if !meta.path().is_ident("doc") => visit::visit_meta(self, meta),
            _ => {}
        }
    }

    fn visit_visibility(&mut self, _: &'ast Visibility) {}
}

fn segments(path: &Path) -> Vec<String> {
    path.segments.iter().map(|segment| plain(&segment.ident)).collect()
}
