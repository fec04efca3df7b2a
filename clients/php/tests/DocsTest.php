<?php

declare(strict_types=1);

namespace Duetime\Tests;

use PHPUnit\Framework\TestCase;

/** Everything public has a doc comment. */
final class DocsTest extends TestCase
{
    public function testEverythingPublicIsDocumented(): void
    {
        $source = (string) realpath(__DIR__ . '/../src');
        [$bare, $count] = [[], 0];
        foreach (new \RegexIterator(new \RecursiveIteratorIterator(new \RecursiveDirectoryIterator($source)), '#/[A-Z]\w+\.php$#') as $file) {
            $class = 'Duetime\\' . strtr(substr((string) $file, \strlen($source) + 1, -4), '/', '\\');
            if ($class === 'Duetime\Http\Psr18Http' && !interface_exists('Psr\Http\Client\ClientInterface')) {
                continue;
            }
            $reflection = new \ReflectionClass($class);
            $count++;
            $isBare = static fn (\ReflectionClass|\ReflectionMethod|\ReflectionProperty $one): bool => $one->getDocComment() === false;
            $own = static fn (\ReflectionMethod|\ReflectionProperty $one): bool => $one->getDeclaringClass()->name === $class && !$reflection->isEnum();
            $methods = array_filter($reflection->getMethods(\ReflectionMethod::IS_PUBLIC), static fn (\ReflectionMethod $one): bool
                => $own($one) && !$one->isDestructor() && !($one->isConstructor() && $one->getNumberOfParameters() < 2));
            // Those of a constructor are described there.
            $properties = array_filter($reflection->getProperties(\ReflectionProperty::IS_PUBLIC), static fn (\ReflectionProperty $one): bool
                => $own($one) && !$one->isPromoted());
            foreach (array_filter([$reflection, ...$methods, ...$properties], $isBare) as $one) {
                $bare[] = "$class {$one->name}";
            }
        }
        self::assertSame([], $bare);
        self::assertGreaterThan(40, $count);
    }
}
