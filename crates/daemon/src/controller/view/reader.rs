//! Answers questions from the maps. Only changes take the lock of the instance.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use ratelimit_base::text::{pasted, prefix::Prefix, service::ServiceName};
use ratelimit_common::{
    buckets::bucket::Bucket,
    identity::source::Source,
    reason::{Count, Reason},
};
use ratelimit_dataplane::{
    instance::read_only::View,
    lists::{action::Action, listing},
    readings::worst::{self, Search},
    rules::{
        list::{self, within},
        services::Services,
    },
    tables::open::Tables,
};
use ratelimit_protocol::view::{
    Answer, ChangeRow, Counts, ListRow, Question, ROWS, ReasonRow, RuleRow, Rules, SourceRow,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::{
    changes::{Desk, place},
    words::origin,
};
use crate::{
    controller::events::{
        changes::past,
        notice::{Notice, What},
    },
    limit::write,
};

/// The CPU time to look for sources, or to read rules.
const BUDGET: Duration = Duration::from_millis(50);

/// Answers questions, one at a time.
#[derive(Debug)]
pub(super) struct Reader {
    pins: PathBuf,
    desk: Arc<Desk>,
    turn: Arc<Semaphore>,
}

impl Reader {
    pub(super) fn of(pins: &Path, desk: &Arc<Desk>) -> Self {
        Self { pins: pins.to_owned(), desk: Arc::clone(desk), turn: Arc::new(Semaphore::new(1)) }
    }

    /// Waits for a turn.
    pub(super) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.turn).acquire_owned().await.ok()
    }

    /// Answers a line in this turn. None if the thread has failed.
    pub(super) async fn line(self: &Arc<Self>, line: Vec<u8>, turn: OwnedSemaphorePermit) -> Option<Vec<u8>> {
        let (send, receive) = oneshot::channel();
        let reader = Arc::clone(self);
        tokio::task::spawn_blocking(move || {
            let begin = Instant::now();
            let answer = match serde_json::from_slice::<Question>(&line) {
                Ok(question) if question.is_change() => reader.answer(&question),
                // A command may be replacing the instance, so a second try follows a failure.
                Ok(question) => reader.answer(&question).or_else(|_| reader.answer(&question)),
                Err(error) => Err(error.into()),
            };
            let answer = answer.unwrap_or_else(|error| Answer::Failed(pasted::text(&error.to_string()).into_owned()));
            // The reader may have closed the connection.
            let _ = send.send(serde_json::to_vec(&answer).ok());
            // The pause limits permanent questions to half a CPU.
            thread::sleep(begin.elapsed());
            drop(turn);
        });
        receive.await.ok().flatten()
    }

    fn answer(&self, question: &Question) -> Result<Answer> {
        match question {
            Question::Changes => return Ok(Answer::Changes(self.changes()?)),
            Question::Change { wanted, before, visitor } => {
                return self.desk.change(&self.pins, wanted, before.as_deref(), visitor);
            }
            Question::Undo { number, place, visitor } => {
                return self.desk.undo(&self.pins, *number, place, visitor);
            }
            _ => {}
        }
        let view = View::open(&self.pins)?;
        let tables = view.tables();
        Ok(match question {
            Question::Counts => {
                let interfaces = view.attachments()?.into_iter().map(|attachment| attachment.name).collect();
                Answer::Counts(Counts { interfaces, reasons: reasons(tables)? })
            }
            Question::Sources => Answer::Sources(sources(tables)?),
            Question::Rules { search, from } => Answer::Rules(rules(tables, search, *from)?),
            Question::Lists => Answer::Lists(lists(tables)?),
            Question::Rule(place) => self.desk.rule(tables, place)?,
            Question::Preview { wanted, visitor } => self.desk.preview(&self.pins, tables, wanted, visitor)?,
            // They are answered above.
            Question::Changes | Question::Change { .. } | Question::Undo { .. } => Answer::Changes(Vec::new()),
        })
    }

    fn changes(&self) -> Result<Vec<ChangeRow>> {
        let row = |notice: Notice| match notice.what {
            What::Changed { by, what } => Some(ChangeRow { at: notice.at.to_string(), by, what }),
            _ => None,
        };
        Ok(past(&self.pins)?.into_iter().rev().filter_map(row).collect())
    }
}

fn reasons(tables: &Tables) -> Result<Vec<ReasonRow>> {
    let counts = tables.counters.all()?;
    let each = Reason::ALL.into_iter().zip(counts.done.iter().zip(&counts.shadow));
    let row = |(reason, (done, shadow)): (Reason, (&Count, &Count))| ReasonRow {
        name: reason.name().to_owned(),
        passes: reason.passes(),
        packets: done.packets,
        bytes: done.bytes,
        would_drop: shadow.packets,
    };
    Ok(each.map(row).filter(|row| row.packets + row.would_drop > 0).collect())
}

fn sources(tables: &Tables) -> Result<Vec<SourceRow>> {
    let services = Services::read(tables)?;
    let search = Search { most: ROWS, budget: Some(BUDGET), rank: worst::by_drops, is_wanted: |_: &Source| true };
    let row = |(source, bucket): (Source, Bucket)| SourceRow {
        source: Prefix::of(&source, source.prefix).to_string(),
        service: ServiceName(services.of_key(&source).0).to_string(),
        passed: bucket.passed(),
        dropped: bucket.dropped().packets,
        would_drop: bucket.would_drop().packets,
    };
    Ok(search.find(tables)?.sources.into_iter().map(row).collect())
}

fn rules(tables: &Tables, search: &str, from: usize) -> Result<Rules> {
    let search = search.to_lowercase();
    let row = |rule: list::Listed| RuleRow {
        packets: rule.target.to_string(),
        place: place(rule.target),
        policy: write::spec(&rule.spec),
        origin: origin(rule.origin).to_owned(),
        ends_in: rule.expires_in.map(|left| left.as_secs()),
        comment: rule.comment.map(String::from),
    };
    let has_text = |row: &RuleRow| {
        let texts = [Some(&row.packets), Some(&row.policy), Some(&row.origin), row.comment.as_ref()];
        texts.into_iter().flatten().any(|text| text.to_lowercase().contains(&search))
    };
    let (mut rows, mut read) = (Vec::new(), 0);
    let is_whole = within::within(tables, BUDGET, |rule| {
        read += 1;
        let target = rule.target;
        rows.extend(Some(row(rule)).filter(has_text).map(|row| (target, row)));
    })?;
    rows.sort_by_key(|(target, _)| *target);
    let count = rows.len();
    let rows = rows.into_iter().skip(from).take(ROWS).map(|(_, row)| row).collect();
    Ok(Rules { count, rows, read: (!is_whole).then_some(read) })
}

fn lists(tables: &Tables) -> Result<Vec<ListRow>> {
    let row = |list: listing::Listing| ListRow {
        entries: list.entries(),
        action: match &list.action {
            Action::Deny => "deny".to_owned(),
            Action::Limit(spec) => write::spec(spec),
        },
        packets: list.hits.packets,
        ends_in: list.expires_in.map(|left| left.as_secs()),
        name: list.name,
    };
    Ok(listing::all(tables)?.into_iter().map(row).collect())
}
