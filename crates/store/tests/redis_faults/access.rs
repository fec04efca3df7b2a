//! A Redis that refuses: users, passwords, rights.

use crate::redis_faults::subject::Subject;
use duetime_core::Error;
use duetime_store::testing::RedisServer;

fn as_user(server: &RedisServer, user: &str) -> String {
    server.url().replace("redis://", &format!("redis://{user}@"))
}

#[tokio::test]
async fn a_wrong_password_is_told_at_once() {
    let server = RedisServer::with(&["--requirepass", "right"]);
    for (user, why) in
        [("", "needs a password"), (":wrong@", "user or password"), ("nobody:right@", "user or password")]
    {
        let url = server.url().replace("redis://", &format!("redis://{user}"));
        let error = Subject::try_connect(&url).await.map(drop).unwrap_err();
        assert!(matches!(error, Error::Unusable(_)), "{user}: {error:?}");
        let text = error.to_string();
        assert!(text.contains(why) && !text.contains("wrong@"), "{text}");
    }
    Subject::connect(&as_user(&server, ":right")).await;
}

#[tokio::test]
async fn a_user_who_may_not_run_scripts_is_told_at_once() {
    let server = RedisServer::start();
    server.command(&["ACL", "SETUSER", "poor", "on", ">word", "~*", "&*", "+@all", "-evalsha", "-eval"]);
    let error = match Subject::try_connect(&as_user(&server, "poor:word")).await {
        Ok(s) => s.push([1]).await.map(drop).unwrap_err(),
        Err(error) => error,
    };
    assert!(matches!(error, Error::Unusable(_)), "{error:?}");
    assert!(error.to_string().contains("lacks required rights") && error.to_string().contains("evalsha"), "{error}");
}

/// Keys and channels all begin alike, so that a user may be confined to them; `CONFIG` may be forbidden.
#[tokio::test]
async fn a_user_with_no_more_than_is_needed_can_work() {
    let server = RedisServer::start();
    let rights = ["~{duetime:*", "&duetime:*", "+@all", "-@admin", "-@dangerous", "+info"];
    server.command(&[&["ACL", "SETUSER", "modest", "on", ">word"], rights.as_slice()].concat());
    let s = Subject::connect(&as_user(&server, "modest:word")).await;
    s.push([1]).await.unwrap();
    s.one().await;
}
