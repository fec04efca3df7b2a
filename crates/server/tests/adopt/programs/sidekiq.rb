# Sidekiq's own client, as Debian has it, on the Redis in REDIS_URL.
#
#   ruby sidekiq.rb produce FIRST COUNT SEED   pushes, schedules and cancels at full speed; prints `pushed N`, `cancelling N` and `cancelled N`
#   ruby sidekiq.rb delay FIRST COUNT SECONDS  schedules jobs; prints `pushed N`
#
# `sidekiq -r ship.rb` runs them.
require_relative "ship"
require "sidekiq/api"

$stdout.sync = true
what = ARGV.shift
first, count, last = ARGV.map { |number| Integer(number) }
names = first...first + count

if what == "delay"
  names.each do |name|
    at = Time.now.to_f + last
    Ship.perform_at(at, name, at)
    puts "pushed #{name}"
  end
  exit
end

random = Random.new(last)
scheduled = {}
names.each do |name|
  kind = random.rand(10)
  if kind < 3
    Ship.set(queue: kind.zero? ? "low" : "default").perform_async(name, 0)
  else
    at = Time.now.to_f + (kind < 7 ? random.rand * 2 : 1000)
    scheduled[name] = [at, Ship.perform_at(at, name, at)]
  end
  puts "pushed #{name}"
  next unless kind.even? && !scheduled.empty?
  cancelled = scheduled.keys.sample(random: random)
  puts "cancelling #{cancelled}"
  # Anything but true: it was not there.
  puts "cancelled #{cancelled}" if Sidekiq::ScheduledSet.new.delete(*scheduled.delete(cancelled)) == true
end
