//! The fenced blocks of a page, and how each is handled.

/// A fenced block.
#[derive(Clone, Debug)]
pub(super) struct Block {
    /// The first word after the fence.
    pub(super) language: String,
    pub(super) text: String,
    /// Counted from 1, that of the fence.
    pub(super) line: usize,
}

impl Block {
    /// Whether it is given to a program.
    pub(super) fn is_run(&self) -> bool {
        matches!(&*self.language, "sh" | "sql" | "mysql" | "php" | "python" | "js")
    }

    /// Whether it only looks, and may be repeated until it sees the expected output.
    pub(super) fn is_look(&self) -> bool {
        self.language == "sh" && self.text.starts_with("duetime list") && !self.text.contains('\n')
    }

    /// Whether it starts a server that keeps running during the next blocks.
    pub(super) fn is_server(&self) -> bool {
        let starts = ["duetime serve", "duetime beanstalk", "cargo run --release -- serve"];
        let is_ours = starts.iter().any(|start| self.text.starts_with(start));
        self.language == "sh" && (is_ours || self.is_receiver())
    }

    /// Whether that server receives webhooks.
    pub(super) fn is_receiver(&self) -> bool {
        self.text.contains("php -S ")
    }
}

/// All blocks, in order.
pub(super) fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let Some(language) = line.strip_prefix("```") else { continue };
        let language = language.split(',').next().unwrap().trim().to_owned();
        let body = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```");
        blocks.push(Block { language, text: body.collect::<Vec<_>>().join("\n"), line: index + 1 });
    }
    blocks
}
