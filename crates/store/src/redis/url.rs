//! URLs of Redis.

use duetime_core::{Error, Redacted};
use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo};

/// The default namespace.
const NAMESPACE_DEFAULT: &str = "default";
const NAMESPACE_BYTES_MAX: usize = 64;
const EXPECTED: &str = "a URL: redis://[user:password@]host[:port][/db][?namespace=name] (rediss:// for TLS), \
    redis+sentinel://host:port,…/master[/db] or redis+cluster://host:port,…";

/// The topology of the servers.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    Single(ConnectionInfo),
    Sentinel { sentinels: Vec<ConnectionAddr>, master: String, redis: RedisConnectionInfo, tls: bool },
    Cluster(Vec<ConnectionInfo>),
}

/// A parsed URL.
#[derive(Clone, Debug)]
pub(super) struct Address {
    /// The URL, without user and password.
    pub(super) shown: String,
    pub(super) shape: Shape,
    pub(super) namespace: String,
    /// The number of partitions of a new namespace, if the URL sets it.
    pub(super) partitions: Option<u16>,
}

impl Address {
    /// # Errors
    /// [`Error::Invalid`], without the password.
    pub(super) fn parse(url: &str) -> Result<Self, Error> {
        let wrong = |why: &str| Error::invalid("broker", EXPECTED, format!("{}: {why}", Redacted(url)));
        let (scheme, rest) = url.split_once("://").ok_or_else(|| Error::invalid("broker", EXPECTED, Redacted(url)))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (mut namespace, mut partitions) = (NAMESPACE_DEFAULT.to_owned(), None);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("namespace", name)) if is_name(name) => namespace = name.to_owned(),
                Some(("namespace", _)) => return Err(wrong("`namespace` must be 1 to 64 of A-Z a-z 0-9 _ . -")),
                Some(("partitions", count)) => {
                    let count = count.parse().ok().filter(|count| (1..=1_024).contains(count));
                    partitions = Some(count.ok_or_else(|| wrong("`partitions` must be a number from 1 to 1024"))?);
                }
                _ => return Err(wrong("the parameters after `?` are `namespace` and `partitions`")),
            }
        }
        let (userinfo, rest) = rest.rsplit_once('@').map_or((None, rest), |(info, rest)| (Some(info), rest));
        let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
        if hosts.is_empty() {
            return Err(wrong("it has no host"));
        }
        let tls = scheme.starts_with("rediss");
        let plain = if tls { "rediss" } else { "redis" };
        let at = |host: &str, path: &str| -> Result<ConnectionInfo, Error> {
            let userinfo = userinfo.map(|info| format!("{info}@")).unwrap_or_default();
            let info = format!("{plain}://{userinfo}{host}/{path}").as_str().into_connection_info();
            let info = info.map_err(|_| wrong("its user, host, port or database number is not valid"))?;
            // Push messages require RESP3; so does sharing one connection.
            let redis = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
            Ok(info
                .set_redis_settings(redis)
                .set_tcp_settings(redis::io::tcp::TcpSettings::default().set_nodelay(true)))
        };
        let shape = match scheme {
            "redis" | "rediss" if !hosts.contains(',') => Shape::Single(at(hosts, path)?),
            "redis" | "rediss" => return Err(wrong("only redis+sentinel and redis+cluster have several hosts")),
            "redis+sentinel" | "rediss+sentinel" => {
                let (master, db) = path.split_once('/').unwrap_or((path, ""));
                if master.is_empty() {
                    return Err(wrong("the name of the master is missing: add `/` and the name after the sentinels"));
                }
                let sentinels: Result<Vec<_>, _> =
                    hosts.split(',').map(|host| at(&with_port(host, 26_379), "")).collect();
                let sentinels = sentinels?.iter().map(|info| info.addr().clone()).collect();
                let redis = at("localhost", db)?.redis_settings().clone();
                Shape::Sentinel { sentinels, master: master.to_owned(), redis, tls }
            }
            "redis+cluster" | "rediss+cluster" if matches!(path, "" | "0") => {
                Shape::Cluster(hosts.split(',').map(|host| at(host, "")).collect::<Result<_, _>>()?)
            }
            "redis+cluster" | "rediss+cluster" => return Err(wrong("a Cluster has only database 0")),
            _ => return Err(wrong("its scheme is unknown")),
        };
        Ok(Self { shown: Redacted(url).to_string(), shape, namespace, partitions })
    }

    /// The default number of partitions of a new namespace.
    pub(super) fn partitions_default(&self) -> u16 {
        if matches!(self.shape, Shape::Cluster(_)) { 256 } else { 1 }
    }
}

fn with_port(host: &str, port: u16) -> String {
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    if has_port { host.to_owned() } else { format!("{host}:{port}") }
}

fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    (1..=NAMESPACE_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read() {
        let single = Address::parse("redis://me:secret@db.example:7000/3?namespace=shop").unwrap();
        assert_eq!(single.namespace, "shop");
        let Shape::Single(info) = &single.shape else { panic!("{single:?}") };
        assert_eq!((info.addr().to_string(), info.redis_settings().db()), ("db.example:7000".to_owned(), 3));
        assert_eq!(info.redis_settings().password(), Some("secret"));
        assert_eq!((single.partitions_default(), single.partitions), (1, None));
        assert_eq!(single.shown, "redis://***@db.example:7000/3?namespace=shop");

        let sentinel = Address::parse("redis+sentinel://a:1,b/mymaster/2").unwrap();
        let Shape::Sentinel { sentinels, master, redis, tls } = &sentinel.shape else { panic!("{sentinel:?}") };
        let addresses: Vec<String> = sentinels.iter().map(ToString::to_string).collect();
        assert_eq!(
            (addresses, master.as_str(), redis.db(), *tls),
            (vec!["a:1".into(), "b:26379".into()], "mymaster", 2, false)
        );

        let cluster = Address::parse("redis+cluster://a:1,b:2,c:3?partitions=8").unwrap();
        assert!(matches!(&cluster.shape, Shape::Cluster(nodes) if nodes.len() == 3));
        assert_eq!((cluster.partitions_default(), cluster.partitions), (256, Some(8)));
        assert_eq!(cluster.namespace, NAMESPACE_DEFAULT);
    }

    #[test]
    fn what_is_wrong_is_said_without_the_password() {
        for url in [
            "localhost",
            "http://a",
            "redis://",
            "redis://a,b",
            "redis+sentinel://a:1",
            "redis+cluster://a:1/3",
            "redis://u:secret@a?names=x",
            "redis://u:secret@a?namespace=a b",
            "redis://u:secret@a?partitions=0",
            "redis://u:secret@a/notanumber",
        ] {
            let error = Address::parse(url).expect_err(url).to_string();
            assert!(!error.contains("secret"), "{error}");
            assert!(error.contains("redis+cluster://"), "{error}");
        }
    }
}
