<?php

declare(strict_types=1);

// Debian's Laravel is older than its PHP, and says so in each file.
error_reporting(E_ALL & ~E_DEPRECATED);
$laravel = '/usr/share/php/Illuminate/autoload.php';
is_file($laravel) || exit("expected Debian's php-laravel-framework\n");
require $laravel;
require __DIR__ . '/../../php/src/autoload.php';
spl_autoload_register(static function (string $class): void {
    $name = strtr(substr($class, 16), '\\', '/');
    $file = __DIR__ . (str_starts_with($name, 'Tests/') ? substr($name, 5) : "/../src/$name") . '.php';
    if (str_starts_with($class, 'Duetime\\Laravel\\') && is_file($file)) {
        require $file;
    }
});
require __DIR__ . '/app/Application.php';
require __DIR__ . '/app/jobs.php';
