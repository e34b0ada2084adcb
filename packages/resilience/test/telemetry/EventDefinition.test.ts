import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Metric } from "effect"
import { TestClock } from "effect/testing"
import { EventDefinition, Metrics, ResilienceEvents } from "@outlast/resilience"
import { series } from "./support.ts"

interface MailSent extends ResilienceEvents.ResilienceEvent {
  readonly _tag: "MailSent"
  readonly server: string
  readonly queue: string | undefined
  readonly bytes: number
}

const sent = Metric.counter("test_mails_total", { incremental: true })
const bytes = Metric.histogram("test_mail_bytes", { boundaries: [10, 100] })
const state = Metric.gauge("test_mail_state")

const definitions: EventDefinition.EventDefinitions<MailSent> = {
  MailSent: {
    doc: "A server has accepted a mail.",
    line: ({ server }) => ({ level: "Info", text: `mail sent by ${server}` }),
    metrics: [
      { metric: sent, names: { server: ({ server }) => server }, words: { queue: ({ queue }) => queue } },
      { metric: bytes, value: ({ bytes }) => (bytes === 0 ? undefined : bytes) },
      { metric: state, names: { server: ({ server }) => server }, value: ({ bytes }) => bytes }
    ]
  }
}

const mail = (server: string, queue?: string, bytes = 0): MailSent => ({
  _tag: "MailSent",
  at: 0,
  server,
  queue,
  bytes
})

const measured = <A, E>(program: Effect.Effect<A, E>) =>
  Effect.provideService(program, Metric.MetricRegistry, new Map())

describe("EventDefinition", () => {
  it.effect("bounds names over all metrics, leaves words whole and skips what has no value", () =>
    measured(
      Effect.gen(function* () {
        const read = EventDefinition.reader(definitions, 1)
        for (const event of [mail("a", "x", 7), mail("a", "y"), mail("b", "z", 3), { _tag: "Odd", at: 0 }])
          yield* read(event)
        assert.deepStrictEqual(yield* series, {
          "test_mails_total{queue=x,server=a}": 1,
          "test_mails_total{queue=y,server=a}": 1,
          "test_mails_total{queue=z,server=other}": 1,
          test_mail_bytes: 2,
          "test_mail_state{server=a}": 0
        })
      })
    )
  )

  it.effect("updates the metrics of one event without a layer", () =>
    measured(
      Effect.gen(function* () {
        yield* EventDefinition.update(definitions.MailSent, mail("a", undefined, 7))
        assert.deepStrictEqual(yield* series, {
          "test_mails_total{server=a}": 1,
          test_mail_bytes: 1,
          "test_mail_state{server=a}": 7
        })
      })
    )
  )

  it("gives the line of a definition, and a line by name to an event without one", () => {
    assert.strictEqual(EventDefinition.lineOf(definitions, mail("a"))?.text, "mail sent by a")
    const unknown = { _tag: "MailBounced", at: 0, name: "newsletter", delay: 12_000 }
    assert.deepStrictEqual(EventDefinition.lineOf(definitions, unknown), {
      level: "Info",
      text: "  mail bounced: newsletter, 12 s"
    })
    assert.deepStrictEqual(
      EventDefinition.lineOf(definitions, { _tag: "toString", at: 0 })?.text,
      "  to string"
    )
  })

  it("says of every event of the package when it is published", () => {
    for (const [tag, { doc }] of Object.entries(Metrics.definitions)) assert.match(doc, /^[A-Z].*\.$/, tag)
  })
})

describe("ResilienceEvents.publishNow", () => {
  const bounced = ResilienceEvents.publishNow<MailSent>({
    _tag: "MailSent",
    server: "a",
    queue: undefined,
    bytes: 1
  })

  it.effect("adds the time at which it runs", () => {
    const seen: Array<ResilienceEvents.ResilienceEvent> = []
    return Effect.gen(function* () {
      yield* TestClock.adjust("3 seconds")
      yield* bounced
      const expected: MailSent = { _tag: "MailSent", at: 3_000, server: "a", queue: undefined, bytes: 1 }
      assert.deepStrictEqual<ReadonlyArray<unknown>>(seen, [expected])
    }).pipe(
      Effect.provide(ResilienceEvents.layerHandler((event) => Effect.sync(() => void seen.push(event))))
    )
  })

  it.effect("reads no clock where nothing listens", () =>
    Effect.gen(function* () {
      const clock = yield* Clock.Clock
      let reads = 0
      const counting: Clock.Clock = {
        ...clock,
        currentTimeMillisUnsafe: () => ++reads
      }
      yield* Effect.provideService(bounced, Clock.Clock, counting)
      assert.strictEqual(reads, 0)
    })
  )
})
