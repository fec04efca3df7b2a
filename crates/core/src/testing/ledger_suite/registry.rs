//! Documents.

use super::Subject;
use crate::ports::{Document, PutIf};

fn document(name: &str, body: &str, version: u64) -> Document {
    Document { name: name.into(), body: body.into(), version }
}

/// From 1, growing with every change.
pub async fn a_document_has_versions(subject: Subject) {
    let registry = &*subject.registry;
    assert_eq!(registry.document("queue", "a").await.unwrap(), None);
    assert_eq!(registry.put_if("queue", "a", "{}", 0).await.unwrap(), PutIf::Stored(1));
    assert_eq!(registry.put_if("queue", "a", "{\"ü\":1}", 1).await.unwrap(), PutIf::Stored(2));
    assert_eq!(registry.document("queue", "a").await.unwrap(), Some(document("a", "{\"ü\":1}", 2)));
}

/// Neither one that is not there, nor one that is.
pub async fn a_mismatch_changes_nothing(subject: Subject) {
    let registry = &*subject.registry;
    assert_eq!(registry.put_if("queue", "a", "{}", 3).await.unwrap(), PutIf::Mismatch(0));
    registry.put_if("queue", "a", "{}", 0).await.unwrap();
    assert_eq!(registry.put_if("queue", "a", "[]", 0).await.unwrap(), PutIf::Mismatch(1));
    assert_eq!(registry.put_if("queue", "a", "[]", 2).await.unwrap(), PutIf::Mismatch(1));
    assert_eq!(registry.document("queue", "a").await.unwrap(), Some(document("a", "{}", 1)));
}

/// Compared byte by byte.
pub async fn documents_come_by_name(subject: Subject) {
    for name in ["b", "a", "B", "a "] {
        subject.registry.put_if("queue", name, "{}", 0).await.unwrap();
    }
    let names = subject.registry.documents("queue").await.unwrap().into_iter().map(|document| document.name);
    assert_eq!(names.collect::<Vec<_>>(), ["B", "a", "a ", "b"]);
}

/// Once.
pub async fn a_removed_document_is_gone(subject: Subject) {
    let registry = &*subject.registry;
    registry.put_if("queue", "a", "{}", 0).await.unwrap();
    assert!(registry.remove("queue", "a", None).await.unwrap());
    assert!(!registry.remove("queue", "a", None).await.unwrap());
    assert_eq!(registry.document("queue", "a").await.unwrap(), None);
    assert!(matches!(registry.put_if("queue", "a", "{}", 0).await.unwrap(), PutIf::Stored(_)));
}

/// Whoever knows an earlier one changes nothing, however often the document was removed since.
pub async fn a_document_has_no_version_twice(subject: Subject) {
    let registry = &*subject.registry;
    let new = async || match registry.put_if("queue", "a", "{}", 0).await.unwrap() {
        PutIf::Stored(version) => version,
        mismatch @ PutIf::Mismatch(_) => panic!("{mismatch:?}"),
    };
    let mut last = new().await;
    for version in [None, Some(()), None] {
        assert_eq!(registry.put_if("queue", "a", "[]", last).await.unwrap(), PutIf::Stored(last + 1));
        last += 1;
        assert!(registry.remove("queue", "a", version.map(|()| last)).await.unwrap());
        let later = new().await;
        assert!(later > last, "{later} is not later than {last}");
        for known in last - 1..=last {
            assert_eq!(registry.put_if("queue", "a", "old", known).await.unwrap(), PutIf::Mismatch(later));
            assert!(!registry.remove("queue", "a", Some(known)).await.unwrap());
        }
        last = later;
    }
    assert_eq!(registry.documents("queue").await.unwrap(), [document("a", "{}", last)]);
}

/// A change that another makes at this moment is not removed with it.
pub async fn a_document_is_removed_in_the_version_that_is_known(subject: Subject) {
    let registry = &*subject.registry;
    registry.put_if("queue", "a", "{}", 0).await.unwrap();
    registry.put_if("queue", "a", "[]", 1).await.unwrap();
    for version in [0, 1, 3] {
        assert!(!registry.remove("queue", "a", Some(version)).await.unwrap(), "{version}");
    }
    assert_eq!(registry.document("queue", "a").await.unwrap(), Some(document("a", "[]", 2)));
    assert!(registry.remove("queue", "a", Some(2)).await.unwrap());
    assert_eq!(registry.document("queue", "a").await.unwrap(), None);
    assert!(!registry.remove("queue", "a", Some(2)).await.unwrap());
}

/// The same name in two kinds is two documents.
pub async fn kinds_are_apart(subject: Subject) {
    let registry = &*subject.registry;
    registry.put_if("queue", "a", "1", 0).await.unwrap();
    registry.put_if("token", "a", "2", 0).await.unwrap();
    registry.remove("queue", "a", None).await.unwrap();
    assert_eq!(registry.documents("queue").await.unwrap(), []);
    assert_eq!(registry.documents("token").await.unwrap(), [document("a", "2", 1)]);
}

/// However many ask at the same time, also with the same body.
pub async fn concurrent_puts_have_one_winner(subject: Subject) {
    for name in ["a", "b"] {
        have_one_winner(&subject, name, |n| if name == "a" { n.to_string() } else { "{}".into() }).await;
    }
}

async fn have_one_winner(subject: &Subject, name: &'static str, body: impl Fn(u32) -> String) {
    let puts: Vec<_> = (0..20)
        .map(|n| {
            let (registry, body) = (subject.registry.clone(), body(n));
            tokio::spawn(async move { registry.put_if("queue", name, &body, 0).await.unwrap() })
        })
        .collect();
    let mut stored = 0;
    for put in puts {
        match put.await.unwrap() {
            PutIf::Stored(1) => stored += 1,
            other => assert_eq!(other, PutIf::Mismatch(1)),
        }
    }
    assert_eq!(stored, 1);
}
