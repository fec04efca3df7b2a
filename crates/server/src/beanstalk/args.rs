//! Options for the beanstalkd protocol.

use crate::serve::port_bound;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// The address on which the protocol is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Tcp(SocketAddr),
    /// A socket in the file system.
    Unix(PathBuf),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(Self::Unix(path.into()));
        }
        text.parse().map(Self::Tcp).map_err(|_| {
            let bound = port_bound(text);
            format!("expected an IP address and a port{bound}, such as 127.0.0.1:11300, or unix:PATH, got {text:?}")
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// The options of `serve`.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Network")]
pub(crate) struct Args {
    /// Also serve the beanstalkd protocol on this address, such as 127.0.0.1:11300 or unix:PATH
    #[arg(long, value_name = "ADDRESS", env = "DUETIME_BEANSTALK")]
    pub(crate) beanstalk: Option<Address>,
    /// Maximum body of a job over the beanstalkd protocol, in bytes, up to --payload-max
    #[arg(long, value_name = "BYTES", env = "DUETIME_BEANSTALK_JOB_MAX", default_value_t = super::limits::JOB_BYTES_DEFAULT)]
    pub(crate) beanstalk_job_max: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read() {
        for text in ["127.0.0.1:11300", "[::1]:11300", "unix:/run/duetime/beanstalk.sock"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for text in ["", "localhost:11300", "127.0.0.1", "unix:", "11300"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
