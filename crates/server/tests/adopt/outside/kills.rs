//! As many kills of the command and of Redis as there is time for: `cargo xtask outside`. `DUETIME_ADOPT_KILLS` says how many.

crate::adopt::dies::each_dies!(60, 20);
