<?php

declare(strict_types=1);

// What a static analyser loads: the classes, and Debian's Laravel.
error_reporting(E_ALL & ~E_DEPRECATED);
require '/usr/share/php/Illuminate/autoload.php';
require __DIR__ . '/../../php/src/autoload.php';
spl_autoload_register(static function (string $class): void {
    $file = __DIR__ . '/../src/' . strtr(substr($class, 16), '\\', '/') . '.php';
    if (str_starts_with($class, 'Duetime\\Laravel\\') && is_file($file)) {
        require $file;
    }
});
