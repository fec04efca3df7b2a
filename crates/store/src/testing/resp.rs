//! Redis' protocol as far as a test's set-up needs it: one command, one reply, one connection.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};

use super::LIMIT;

/// Sends a command to a port of 127.0.0.1. The inner error is what the server says.
pub(super) fn call(port: u16, words: &[&str]) -> io::Result<Result<String, String>> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(LIMIT))?;
    let mut request = format!("*{}\r\n", words.len());
    for word in words {
        request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    stream.write_all(request.as_bytes())?;
    read(&mut BufReader::new(stream))
}

/// A reply as text: nothing for nil, a line for each element of an array.
fn read(input: &mut impl BufRead) -> io::Result<Result<String, String>> {
    let mut line = String::new();
    input.read_line(&mut line)?;
    let line = line.trim_end();
    let unexpected = || io::Error::new(io::ErrorKind::InvalidData, format!("expected a reply, got {line:?}"));
    let (kind, rest) = line.split_at_checked(1).ok_or_else(unexpected)?;
    let count = || rest.parse::<i64>().map_err(|_| unexpected());
    match kind {
        "+" | ":" => Ok(Ok(rest.to_owned())),
        "-" => Ok(Err(rest.to_owned())),
        "$" => {
            let Ok(length) = u64::try_from(count()?) else { return Ok(Ok(String::new())) };
            let mut body = Vec::new();
            input.take(length).read_to_end(&mut body)?;
            input.read_exact(&mut [0; 2])?;
            Ok(Ok(String::from_utf8_lossy(&body).into_owned()))
        }
        "*" => {
            let elements = (0..count()?).map(|_| read(input)).collect::<io::Result<Vec<_>>>()?;
            Ok(elements.into_iter().collect::<Result<Vec<_>, _>>().map(|elements| elements.join("\n")))
        }
        _ => Err(unexpected()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_reply_is_read() {
        let reply = |text: &str| read(&mut text.as_bytes());
        assert_eq!(reply("+OK\r\n").unwrap(), Ok("OK".to_owned()));
        assert_eq!(reply(":-7\r\n").unwrap(), Ok("-7".to_owned()));
        assert_eq!(reply("-ERR no\r\n").unwrap(), Err("ERR no".to_owned()));
        assert_eq!(reply("$4\r\na\r\nb\r\n").unwrap(), Ok("a\r\nb".to_owned()));
        assert_eq!(reply("$-1\r\n").unwrap(), Ok(String::new()));
        assert_eq!(reply("*3\r\n$1\r\na\r\n*1\r\n:5\r\n*-1\r\n").unwrap(), Ok("a\n5\n".to_owned()));
        assert!(reply("").is_err() && reply("HTTP/1.1 400\r\n").is_err() && reply("$5\r\nab").is_err());
    }
}
