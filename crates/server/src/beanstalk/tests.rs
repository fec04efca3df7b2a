//! The parser, input in pieces of any size, and a client that reads nothing.

use super::command::{Command, Put, Refusal, Release, Token, parse};
use super::connection::converse;
use super::counters::get;
use super::door::Door;
use super::input::{Input, Request};
use super::limits::{INPUT_FREE_BYTES, INPUT_STEP_BYTES, JOB_BYTES_DEFAULT, SEND_TIME_MAX};
use crate::account::Account;
use crate::http::ListenerConfig;
use duetime_core::Engine;
use duetime_core::engine::Options;
use duetime_store::open::{Spec, open};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::{Instant, advance, pause};
use tokio_util::sync::CancellationToken;

#[test]
fn lines_are_read_as_by_beanstalkd() {
    let parsed = |line: &str| parse(line.as_bytes()).map(|(_, command)| command);
    let put = |priority, delay_ms, ttr_s, bytes| Ok(Command::Put(Put { priority, delay_ms, ttr_s, bytes }));
    assert_eq!(parsed("put 1 2 3 4"), put(1, 2_000, 3, 4));
    assert_eq!(parsed("put  4294967295  0 0 1"), put(u32::MAX, 0, 1, 1));
    assert_eq!(parsed("put 1 0.25 1 1"), put(1, 250, 1, 1));
    assert_eq!(parsed("put 1 1.005 1 1"), put(1, 1_005, 1, 1));
    let release = Release { id: u64::MAX, priority: 0, delay_ms: 100 };
    assert_eq!(parsed("release 18446744073709551615 0 0.1"), Ok(Command::Release(release)));
    assert_eq!(parsed("kick -1"), Ok(Command::Kick(u64::MAX)));
    assert_eq!(parsed("kick 5 apples"), Ok(Command::Kick(5)));
    assert_eq!(parsed("kick 99999999999999999999"), Ok(Command::Kick(u64::MAX)));
    assert_eq!(parsed("pause-tube a 0"), Ok(Command::PauseTube("a".into(), 0)));
    assert_eq!(parsed("quitter"), Ok(Command::Quit));
    assert_eq!(parsed("auth"), Err(Refusal::BadFormat));
    assert_eq!(parsed("auth a\n"), Err(Refusal::BadFormat));
    assert_eq!(parsed("auth abc"), Ok(Command::Auth(Token("abc".to_owned()))));
    assert_eq!(format!("{:?}", parsed("auth abc").unwrap()), "Auth(Token)");
    for line in ["", "put", "Put 1 0 1 1", "kick", "peek-", "\r", "statistics"] {
        assert_eq!(parsed(line), Err(Refusal::UnknownCommand), "{line:?}");
    }
    assert_eq!(parsed("statsx"), Err(Refusal::BadFormat));
}

/// A session of all kinds of requests.
fn session() -> Vec<u8> {
    let (large, long) = ("0".repeat(99), "x".repeat(300));
    let text = format!(
        "use a\r\nput 1 0 1 3\r\nabc\r\nput 1 0 1 2\r\nabcd\r\nput 1 0 1 99\r\n{large}\r\n{long}\r\r\n\
         reserve\r\nput 1 0 1 0\r\n\r\n\n\r\nquit\r\n"
    );
    text.into_bytes()
}

fn read(pieces: impl Iterator<Item = Vec<u8>>) -> Vec<Request> {
    let mut input = Input::new(50);
    let mut requests = Vec::new();
    for piece in pieces {
        input.buffer.extend_from_slice(&piece);
        while let Some(request) = input.next() {
            requests.push(request);
        }
    }
    requests
}

#[test]
fn pieces_of_any_size_read_alike() {
    let session = session();
    let whole = read(std::iter::once(session.clone()));
    let put = |bytes: &[u8]| {
        Request::Put(Put { priority: 1, delay_ms: 0, ttr_s: 1, bytes: bytes.len() as u32 }, bytes.into())
    };
    let expected = [
        Request::Command("use", Command::Use("a".into())),
        put(b"abc"),
        Request::Refused(Refusal::ExpectedCrlf),
        Request::Refused(Refusal::UnknownCommand),
        Request::Refused(Refusal::JobTooBig),
        Request::Refused(Refusal::BadFormat),
        Request::Command("reserve", Command::Reserve),
        put(b""),
        Request::Refused(Refusal::UnknownCommand),
        Request::Command("quit", Command::Quit),
    ];
    assert_eq!(whole, expected);
    for size in 1..session.len() {
        assert_eq!(read(session.chunks(size).map(<[u8]>::to_vec)), whole, "pieces of {size}");
    }
}

#[test]
fn a_line_without_an_end_takes_no_memory() {
    let mut input = Input::new(50);
    for _ in 0..10_000 {
        input.buffer.extend_from_slice(&[b'x'; 1_000]);
        assert_eq!(input.next(), None);
        assert!(input.buffer.len() < 2_000);
    }
    input.buffer.extend_from_slice(b"\r\nquit\r\n");
    assert_eq!(input.next(), Some(Request::Refused(Refusal::BadFormat)));
    assert_eq!(input.next(), Some(Request::Command("quit", Command::Quit)));
}

/// No input causes a panic, and more input never changes how earlier input was parsed.
#[test]
fn whatever_comes_is_read_or_refused() {
    duetime_core::testing::fuzz("beanstalk", |text| {
        let line = text.strip_suffix('\n').unwrap_or(text);
        let whole = read(std::iter::once(text.as_bytes().to_vec()));
        assert_eq!(read(text.as_bytes().chunks(3).map(<[u8]>::to_vec)), whole);
        parse(line.as_bytes()).ok().map(|(_, command)| shown(&command))
    });
}

/// The command as a line.
fn shown(command: &Command) -> String {
    let seconds = |ms: u64| format!("{}.{:03}", ms / 1_000, ms % 1_000);
    match command {
        Command::Put(put) => format!("put {} {} {} {}", put.priority, seconds(put.delay_ms), put.ttr_s, put.bytes),
        Command::Use(tube) => format!("use {tube}"),
        Command::Reserve => "reserve".to_owned(),
        Command::ReserveWithTimeout(seconds) => format!("reserve-with-timeout {seconds}"),
        Command::ReserveJob(id) => format!("reserve-job {id}"),
        Command::Delete(id) => format!("delete {id}"),
        Command::Release(back) => format!("release {} {} {}", back.id, back.priority, seconds(back.delay_ms)),
        Command::Bury(id, priority) => format!("bury {id} {priority}"),
        Command::Touch(id) => format!("touch {id}"),
        Command::Watch(tube) => format!("watch {tube}"),
        Command::Ignore(tube) => format!("ignore {tube}"),
        Command::Peek(id) => format!("peek {id}"),
        Command::PeekReady => "peek-ready".to_owned(),
        Command::PeekDelayed => "peek-delayed".to_owned(),
        Command::PeekBuried => "peek-buried".to_owned(),
        Command::Kick(bound) => format!("kick {bound}"),
        Command::KickJob(id) => format!("kick-job {id}"),
        Command::StatsJob(id) => format!("stats-job {id}"),
        Command::StatsTube(tube) => format!("stats-tube {tube}"),
        Command::Stats => "stats".to_owned(),
        Command::ListTubes => "list-tubes".to_owned(),
        Command::ListTubeUsed => "list-tube-used".to_owned(),
        Command::ListTubesWatched => "list-tubes-watched".to_owned(),
        Command::PauseTube(tube, seconds) => format!("pause-tube {tube} {seconds}"),
        Command::Auth(Token(token)) => format!("auth {token}"),
        Command::Quit => "quit".to_owned(),
    }
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_closed() {
    const REPLY: &[u8] = b"USING default\r\n";
    let stores = open(Spec::Memory).await.unwrap().stores;
    let engine = Engine::start(stores, Options::default()).await.unwrap();
    let stop = CancellationToken::new();
    let door = Door::new(engine.clone(), &ListenerConfig::plain(), JOB_BYTES_DEFAULT, stop);
    // Room for two replies and a half.
    let (mut client, stream) = duplex(REPLY.len() * 5 / 2);
    pause();
    let conversation = tokio::spawn(converse(door.clone(), stream, None));
    client.write_all(&b"list-tube-used\r\n".repeat(4)).await.unwrap();
    // One that reads a little now and then stays.
    let mut reply = [0; REPLY.len()];
    advance(SEND_TIME_MAX - Duration::from_secs(1)).await;
    client.read_exact(&mut reply).await.unwrap();
    assert_eq!(reply, REPLY);
    client.write_all(b"list-tube-used\r\n").await.unwrap();
    advance(SEND_TIME_MAX - Duration::from_secs(1)).await;
    assert_eq!((conversation.is_finished(), get(&door.counters.connections)), (false, 1));
    let begin = Instant::now();
    conversation.await.unwrap();
    assert!(begin.elapsed() < SEND_TIME_MAX + Duration::from_secs(1));
    assert_eq!(get(&door.counters.connections), 0);
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).await.unwrap();
    assert!(rest.len() < 4 * REPLY.len(), "what did not fit was never sent");
    engine.stop().await.unwrap();
}

#[test]
fn the_buffer_grows_with_a_body_and_not_beyond_it() {
    let rooms = |bytes: usize| {
        let mut input = Input::new(1 << 20);
        let session =
            [format!("put 1 0 1 {bytes}\r\n").into_bytes(), vec![b'x'; bytes], b"\r\nquit\r\n".to_vec()].concat();
        let (mut rest, mut rooms) = (&session[..], Vec::new());
        loop {
            if let Some(request) = input.next() {
                assert!(matches!(request, Request::Put(..)));
                return (rooms, input.buffer.len());
            }
            let room = input.room(INPUT_FREE_BYTES, INPUT_STEP_BYTES);
            input.make_room(room);
            assert_eq!(input.buffer.capacity(), room);
            assert!(room > input.buffer.len(), "no more can come");
            rooms.push(room);
            // In small pieces.
            let (piece, later) = rest.split_at(rest.len().min(1_000).min(room - input.buffer.len()));
            input.buffer.extend_from_slice(piece);
            rest = later;
        }
    };
    let (free, step) = (INPUT_FREE_BYTES, INPUT_STEP_BYTES);
    let (mut small, _) = rooms(10_000);
    small.dedup();
    assert_eq!(small, [free]);
    let (mut large, unparsed) = rooms(60_000);
    large.dedup();
    assert_eq!((large, unparsed), (vec![free, 60_002], 0));
    let (mut larger, unparsed) = rooms(200_000);
    larger.dedup();
    assert_eq!((larger.len(), larger[..2].to_vec(), unparsed), (4, vec![free, larger[1]], 0));
    assert!((step..=step + free).contains(&larger[1]) && larger[2] <= 2 * larger[1] && larger[3] == 200_002);
}

/// A door whose account has little memory for requests.
async fn narrow_door(bytes: usize) -> (Engine, Arc<Door>) {
    let stores = open(Spec::Memory).await.unwrap().stores;
    let engine = Engine::start(stores, Options::default()).await.unwrap();
    let mut config = ListenerConfig::plain();
    config.account = Account::with_requests(bytes);
    let door = Door::new(engine.clone(), &config, JOB_BYTES_DEFAULT, CancellationToken::new());
    (engine, door)
}

const LARGE: usize = 60_000;

/// A client that has sent all but the last byte of a large job.
async fn puts_most(door: &Arc<Door>) -> DuplexStream {
    let (mut client, stream) = duplex(4 << 10);
    tokio::spawn(converse(door.clone(), stream, None));
    let put = [format!("put 0 0 60 {LARGE}\r\n").into_bytes(), vec![b'x'; LARGE - 1]].concat();
    client.write_all(&put).await.unwrap();
    client
}

#[tokio::test]
async fn a_large_job_has_a_share_until_it_is_put() {
    let (engine, door) = narrow_door(1 << 20).await;
    let requests = &door.account.requests;
    let mut client = puts_most(&door).await;
    let free = |bytes| requests.share().try_grow(bytes).is_ok();
    assert!(!free(requests.bytes() - (LARGE - INPUT_FREE_BYTES)), "its body is in no account");
    assert!(free(requests.bytes() - LARGE));
    client.write_all(b"x\r\n").await.unwrap();
    let mut reply = [0; 8];
    client.read_exact(&mut reply).await.unwrap();
    assert_eq!(&reply, b"INSERTED");
    assert!(free(requests.bytes()), "the share is kept");
    engine.stop().await.unwrap();
}

#[tokio::test]
async fn a_large_job_that_stalls_gives_way_to_others() {
    // Room for one.
    let (engine, door) = narrow_door(LARGE).await;
    pause();
    let mut stalled = puts_most(&door).await;
    // It may stand still as long as nobody waits.
    advance(Duration::from_secs(60)).await;
    let mut other = puts_most(&door).await;
    other.write_all(b"x\r\n").await.unwrap();
    let mut reply = [0; 8];
    other.read_exact(&mut reply).await.unwrap();
    assert_eq!(&reply, b"INSERTED");
    let mut rest = String::new();
    stalled.read_to_string(&mut rest).await.unwrap();
    assert_eq!(rest, "OUT_OF_MEMORY\r\n");
    engine.stop().await.unwrap();
}
