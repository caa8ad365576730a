//! The hosts of a fleet: each tells the engine that it is there, and what it is.

use std::time::Duration;

use ratelimit_base::text::excerpt::excerpt;
use redis::Value;

pub use crate::members::Hosts;
use crate::{
    engine::Engine,
    error::Error,
    script::{Script, text},
};
use ratelimit_protocol::fleet::{About, Member};

/// Time after which a silent host no longer counts.
pub const SILENCE: Duration = Duration::from_secs(10);
/// The most hosts to hear of.
const MOST: usize = 64;

/// Keys of what the engine knows about hosts. A cluster serves both from one server.
const KEYS: [&str; 2] = ["{rl:m}:heard", "{rl:m}:hosts"];

/// The script that keeps the hosts.
pub struct Heartbeat {
    script: Script,
    id: String,
}

impl Heartbeat {
    /// Returns the heartbeat of the host with this id.
    #[must_use]
    pub fn of(id: String) -> Self {
        Self { script: Script::new(include_str!("hosts.lua")), id }
    }

    /// Tells the engine that the host is there, and returns all hosts.
    ///
    /// # Errors
    ///
    /// Any [`Error`] but that of the URL.
    pub async fn beat(&self, engine: &Engine, about: &About) -> Result<Hosts, Error> {
        if let Some(mesh) = engine.mesh() {
            return mesh.beat(&self.id, about);
        }
        let says = serde_json::to_string(about).map_err(|_| Error::Garbage("the host has no name"))?;
        self.call(engine, &says).await
    }

    /// Tells the engine that the host has gone.
    ///
    /// # Errors
    ///
    /// Any [`Error`] but that of the URL.
    pub async fn leave(&self, engine: &Engine) -> Result<(), Error> {
        if let Some(mesh) = engine.mesh() {
            mesh.leave();
            return Ok(());
        }
        self.call(engine, "").await.map(|_| ())
    }

    async fn call(&self, engine: &Engine, says: &str) -> Result<Hosts, Error> {
        let arguments = [&self.id, says, &SILENCE.as_secs().to_string(), &MOST.to_string()];
        let arguments = arguments.map(|text| text.as_bytes().to_vec());
        read(&engine.run::<Vec<Value>>(&self.script, &KEYS, &arguments).await?)
    }
}

/// Reads what the engine knows about hosts. A host that says something else than a host of this version has no name.
fn read(values: &[Value]) -> Result<Hosts, Error> {
    let [count, members @ ..] = values else { return Err(Error::Garbage("it is empty")) };
    let count = text(count)?.parse().map_err(|_| Error::Garbage("a value is not a number"))?;
    let (members, rest) = members.as_chunks::<3>();
    if !rest.is_empty() || members.len() > MOST || members.len() > count {
        return Err(Error::Garbage("it has another number of hosts"));
    }
    let member = |[id, silent, says]: &[Value; 3]| {
        let silent = text(silent)?.parse().ok().filter(|silent: &f64| silent.is_finite() && *silent >= 0.0);
        let silent = silent.ok_or(Error::Garbage("a value is not a number"))?;
        Ok(Member { id: excerpt(text(id)?), silent_seconds: silent, about: About::read(text(says)?) })
    };
    Ok(Hosts { count, members: members.iter().map(member).collect::<Result<_, Error>>()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(texts: &[&str]) -> Result<Hosts, Error> {
        let values: Vec<_> = texts.iter().map(|text| Value::BulkString(text.as_bytes().to_vec())).collect();
        read(&values)
    }

    #[test]
    fn hosts_have_an_id_and_what_they_say() {
        let says = r#"{"name":"web1","version":"0.1.0","weight":2.0,"limit":"1000/s"}"#;
        let about = About {
            name: "web1".to_owned(),
            version: "0.1.0".to_owned(),
            weight: 2.0,
            limit: "1000/s".to_owned(),
            ..About::default()
        };
        let known = Member { id: "a".to_owned(), silent_seconds: 0.5, about };
        let unknown = Member { id: "b".to_owned(), silent_seconds: 9.0, about: About::default() };
        let hosts = answer(&["7", "a", "0.5", says, "b", "9", "{"]).unwrap();
        assert_eq!(hosts, Hosts { count: 7, members: vec![known, unknown] });
    }

    #[test]
    fn hosts_cannot_write_control_characters() {
        let says = r#"{"name":"web1\u001b[31m\n","version":"","weight":1.0,"limit":""}"#;
        let hosts = answer(&["1", "a\n", "0", says]).unwrap();
        let all = format!("{}{}", hosts.members[0].id, hosts.members[0].about.name);
        assert!(!all.chars().any(char::is_control), "{all:?}");
    }

    #[test]
    fn answers_that_make_no_sense_are_errors() {
        for texts in [
            &[][..],
            &["many"],
            &["-1"],
            &["1", "a"],
            &["1", "a", "now", "{}"],
            &["1", "a", "-1", "{}"],
            &["0", "a", "1", "{}"],
        ] {
            assert!(matches!(answer(texts), Err(Error::Garbage(_))), "{texts:?}");
        }
        assert!(read(&[Value::Nil]).is_err());
    }
}
