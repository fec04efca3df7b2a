//! A minimal client for Redis' protocol in test setup: one command, one reply, one connection.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};

use super::LIMIT;

/// Sends a command to a port of 127.0.0.1. The inner error is an error reply of the server.
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

/// The length of the first RESP3 command or reply, if it is complete.
pub(super) fn frame(bytes: &[u8]) -> Option<usize> {
    let line = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let count = || std::str::from_utf8(&bytes[1..line]).ok().and_then(|text| text.parse::<i64>().ok()).unwrap_or(0);
    let line = line + 2;
    let elements = match bytes[0] {
        b'$' | b'=' | b'!' => {
            let Ok(length) = usize::try_from(count()) else { return Some(line) };
            return (bytes.len() >= line + length + 2).then_some(line + length + 2);
        }
        b'*' | b'~' | b'>' => count(),
        b'%' => count() * 2,
        _ => 0,
    };
    (0..elements).try_fold(line, |at, _| Some(at + frame(&bytes[at..])?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_whole_or_none() {
        let whole = "*3\r\n$1\r\na\r\n%1\r\n+k\r\n:5\r\n*-1\r\n";
        assert_eq!(frame(format!("{whole}+next").as_bytes()), Some(whole.len()));
        for length in 0..whole.len() {
            assert_eq!(frame(&whole.as_bytes()[..length]), None, "{length}");
        }
        assert_eq!(frame(b"$-1\r\n"), Some(5));
        assert_eq!(frame(b"_\r\n"), Some(3));
    }

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
