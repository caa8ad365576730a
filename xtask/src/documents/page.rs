//! Reads a Markdown page into what the rules look at: sentences, links, anchors and code blocks.

use std::{cell::RefCell, collections::BTreeSet, fs, ops::Range, path::Path};

use anyhow::{Context as _, Result};
use pulldown_cmark::{BrokenLink, CodeBlockKind, CowStr, Event, LinkType, Options, Parser, Tag, TagEnd};

use super::{html, split};

/// A sentence, with the line that it begins in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sentence {
    /// The line, counted from 1.
    pub line: usize,
    /// The text. Spaces within code are U+00A0, so that code counts as one word.
    pub text: String,
}

/// A link or an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The line, counted from 1.
    pub line: usize,
    /// The address; none if the page defines none of that name.
    pub address: Option<String>,
    /// The source text of one without address.
    pub text: String,
}

/// A fenced code block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The line of its first line of code, counted from 1.
    pub line: usize,
    /// The language behind the fence.
    pub language: String,
    /// The code.
    pub code: String,
}

/// A Markdown page.
#[derive(Debug, Default)]
pub struct Page {
    /// Path from the root.
    pub name: String,
    /// The text.
    pub text: String,
    /// All sentences outside code blocks.
    pub sentences: Vec<Sentence>,
    /// All links and images.
    pub links: Vec<Link>,
    /// Names that a link can lead to.
    pub anchors: BTreeSet<String>,
    /// All code blocks.
    pub blocks: Vec<Block>,
    /// Lines that cannot be wrapped: tables, code blocks and link definitions.
    pub fixed_lines: BTreeSet<usize>,
}

impl Page {
    /// Reads the page `name` in `root`.
    ///
    /// # Errors
    ///
    /// Fails if there is no such file.
    pub fn read(root: &Path, name: &str) -> Result<Self> {
        let text = fs::read_to_string(root.join(name)).with_context(|| format!("cannot read {name}"))?;
        Ok(Self::parse(name, &text))
    }

    /// Reads a page from its text.
    #[must_use]
    pub fn parse<'t>(name: &str, text: &'t str) -> Self {
        let undefined = RefCell::new(Vec::new());
        let note = |link: BrokenLink<'_>| -> Option<(CowStr<'t>, CowStr<'t>)> {
            if matches!(link.link_type, LinkType::Reference | LinkType::Collapsed) {
                undefined.borrow_mut().push(link.span);
            }
            None
        };
        let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
        let parser = Parser::new_with_broken_link_callback(text, options, Some(note));
        let definitions: Vec<_> = parser.reference_definitions().iter().map(|(_, link)| link.span.clone()).collect();
        let mut reader = Reader {
            page: Self { name: name.to_owned(), text: text.to_owned(), ..Self::default() },
            ..Reader::default()
        };
        definitions.into_iter().for_each(|span| reader.fix(&span));
        for (event, span) in parser.into_offset_iter() {
            reader.event(event, span);
        }
        reader.end_text();
        for span in undefined.into_inner() {
            let line = reader.line(span.start);
            reader.page.links.push(Link { line, address: None, text: text.get(span).unwrap_or_default().to_owned() });
        }
        reader.page
    }
}

/// The state while a page is read.
#[derive(Default)]
struct Reader {
    page: Page,
    /// Text of the paragraph, heading, item or cell that is being read.
    words: String,
    /// Where each part of `words` begins, in `words` and in the page.
    starts: Vec<(usize, usize)>,
    /// Depth of images, whose text is not shown.
    images: usize,
    is_heading: bool,
    block: Option<Block>,
}

impl Reader {
    fn line(&self, offset: usize) -> usize {
        let before = self.page.text.as_bytes().get(..offset).unwrap_or_default();
        1 + before.iter().filter(|byte| **byte == b'\n').count()
    }

    fn fix(&mut self, span: &Range<usize>) {
        let (first, last) = (self.line(span.start), self.line(span.end.saturating_sub(1)));
        self.page.fixed_lines.extend(first..=last);
    }

    fn event(&mut self, event: Event<'_>, span: Range<usize>) {
        match event {
            Event::Text(text) => match &mut self.block {
                Some(block) => block.code += &text,
                None => self.add(&text, span.start),
            },
            Event::Code(text) if self.is_heading => self.add(&text, span.start),
            Event::Code(text) => self.add(&format!("`{}`", text.replace(' ', "\u{a0}")), span.start),
            Event::SoftBreak => self.add(" ", span.start),
            Event::HardBreak | Event::Rule => self.end_text(),
            Event::Html(text) | Event::InlineHtml(text) => {
                let line = self.line(span.start);
                self.page.anchors.extend(html::anchors(&text));
                let links =
                    html::addresses(&text).map(|address| Link { line, address: Some(address), text: String::new() });
                self.page.links.extend(links);
            }
            Event::Start(tag) => self.start(tag, span),
            Event::End(tag) => self.end(tag),
            _ => {}
        }
    }

    fn start(&mut self, tag: Tag<'_>, span: Range<usize>) {
        match tag {
            Tag::Link { link_type, dest_url, .. } | Tag::Image { link_type, dest_url, .. }
                if link_type != LinkType::Email =>
            {
                let line = self.line(span.start);
                let is_image = self.page.text.as_bytes().get(span.start) == Some(&b'!');
                self.images += usize::from(is_image);
                self.page.links.push(Link { line, address: Some(dest_url.into_string()), text: String::new() });
            }
            Tag::CodeBlock(kind) => {
                self.end_text();
                self.fix(&span);
                let (language, fence) = match kind {
                    CodeBlockKind::Fenced(language) => (language.into_string(), 1),
                    CodeBlockKind::Indented => (String::new(), 0),
                };
                self.block = Some(Block { line: self.line(span.start) + fence, language, code: String::new() });
            }
            Tag::Table(_) => {
                self.end_text();
                self.fix(&span);
            }
            Tag::Heading { .. } => {
                self.end_text();
                self.is_heading = true;
            }
            Tag::Paragraph | Tag::Item | Tag::TableCell | Tag::BlockQuote(_) | Tag::List(_) => self.end_text(),
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Image => self.images = self.images.saturating_sub(1),
            TagEnd::CodeBlock => self.page.blocks.extend(self.block.take()),
            TagEnd::Heading(_) => {
                let anchor = anchor(&self.words, &self.page.anchors);
                self.page.anchors.insert(anchor);
                self.is_heading = false;
                self.end_text();
            }
            TagEnd::Paragraph | TagEnd::Item | TagEnd::TableCell => self.end_text(),
            _ => {}
        }
    }

    fn add(&mut self, text: &str, offset: usize) {
        if self.images == 0 {
            self.starts.push((self.words.len(), offset));
            self.words += text;
        }
    }

    /// Ends a paragraph, heading, item or cell.
    fn end_text(&mut self) {
        let (words, starts) = (std::mem::take(&mut self.words), std::mem::take(&mut self.starts));
        for (begin, text) in split::sentences(&words) {
            let part = starts.iter().rev().find(|(start, _)| *start <= begin);
            let line = part.map_or(0, |(start, offset)| self.line(offset + begin - start));
            self.page.sentences.push(Sentence { line, text: text.to_owned() });
        }
    }
}

/// The name by which links lead to a heading, as GitHub makes it. A second heading of the same text gets a number.
fn anchor(heading: &str, others: &BTreeSet<String>) -> String {
    let letters = heading.trim().to_lowercase().replace(' ', "-");
    let anchor: String =
        letters.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, '-' | '_')).collect();
    let numbered = (1..).map(|number| format!("{anchor}-{number}"));
    let mut names = std::iter::once(anchor.clone()).chain(numbered);
    names.find(|name| !others.contains(name)).unwrap_or(anchor)
}
