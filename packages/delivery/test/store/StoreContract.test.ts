/** Promises of every store: one suite in memory, on SQLite and on PostgreSQL. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Option } from "effect"
import { DeliveryStore } from "@outlast/delivery"
import { released } from "#delivery/store/Publisher"
import { turn } from "../support/outboxes.ts"
import { onEach } from "../support/Stores.ts"

const text = new TextEncoder()

const row = (id: string, subject = "a", rest: { readonly at?: number; readonly bytes?: number } = {}) => ({
  id,
  subject,
  body: text.encode(id),
  headers: { Kind: "test" },
  brokerId: id,
  bytes: 10,
  at: 1_000,
  rejections: 0,
  refusal: "",
  ...rest
})

const letter = (key: string, subject = "a", at = 5_000) => ({
  key,
  id: `id-${key}`,
  subject,
  body: text.encode("x"),
  headers: {},
  source: "worker",
  reason: "deliveries" as const,
  detail: "never acknowledged",
  attempts: 5,
  at
})

const idsOf = (rows: ReadonlyArray<{ readonly id: string }>) => rows.map(({ id }) => id)
const store = DeliveryStore.DeliveryStore

onEach((subject) => {
  const test = (name: string, body: Effect.Effect<unknown, unknown, DeliveryStore.DeliveryStore>) =>
    it.effect(name, () => Effect.provide(body, subject.layer()))

  describe("events", () => {
    test(
      "come back in order, as they were stored, by publisher and subject",
      Effect.gen(function* () {
        const { insert, head, totals, subjects } = yield* store
        yield* insert("p", [row("1"), row("2", "b"), row("3")])
        yield* insert("q", [row("4"), row("5", "c")])
        const found = yield* head(["p"], "a", 10)
        assert.deepStrictEqual(idsOf(found), ["1", "3"])
        const [first] = found
        assert.deepStrictEqual(
          { ...first, body: [...(first?.body ?? [])], seq: 0 },
          {
            ...row("1"),
            body: [...text.encode("1")],
            seq: 0
          }
        )
        assert.deepStrictEqual(idsOf(yield* head(["p", "q"], "a", 10)), ["1", "3", "4"])
        assert.deepStrictEqual(idsOf(yield* head(["p", "q"], "a", 2)), ["1", "3"])
        assert.deepStrictEqual([...(yield* subjects("p", 10))].sort(), ["a", "b"])
        assert.deepStrictEqual([...(yield* subjects("q", 1))].length, 1)
        assert.deepStrictEqual(yield* totals, { events: 5, bytes: 50, dead: 0 })
      })
    )
    test(
      "come back in order from more publishers than one read takes",
      Effect.gen(function* () {
        const { insert, head } = yield* store
        const ids = Array.from({ length: 150 }, (_, n) => `${n}`)
        const owned = ids.map((_, n) => `p${(n * 37) % ids.length}`)
        for (const [n, publisher] of owned.entries()) yield* insert(publisher, [row(`${n}`)])
        assert.deepStrictEqual(idsOf(yield* head(owned.toSorted(), "a", 200)), ids)
      })
    )
    test(
      "of all sizes come back as they were, in order",
      Effect.gen(function* () {
        const { insert, head, remove, totals } = yield* store
        const sizes = [0, 1, 30_000, 40_000, 65_536, 200_000, 0, ...Array.from({ length: 70 }, () => 2_000)]
        const rows = sizes.map((size, n) => ({
          ...row(`${n}`, "a", { bytes: size + 10 }),
          body: new Uint8Array(size).fill(n)
        }))
        yield* insert("p", rows)
        const found = yield* head(["p"], "a", 100)
        assert.deepStrictEqual(
          found.map(({ body, id }) => [id, body.byteLength, body.at(-1)]),
          rows.map(({ body, id }) => [id, body.byteLength, body.at(-1)])
        )
        yield* remove(found.map(({ seq }) => seq))
        assert.strictEqual((yield* totals).bytes, 0)
      })
    )
    test(
      "with a known id are skipped, in one group and in two",
      Effect.gen(function* () {
        const { insert, head } = yield* store
        yield* insert("p", [row("1"), row("1"), row("2")])
        yield* insert("p", [row("2"), row("3")])
        assert.deepStrictEqual(idsOf(yield* head(["p"], "a", 10)), ["1", "2", "3"])
      })
    )
    test(
      "can be removed, and their rejections counted",
      Effect.gen(function* () {
        const { insert, head, remove, rejected, oldest } = yield* store
        yield* insert("p", [row("1"), row("2", "a", { at: 2_000 }), row("3")])
        assert.deepStrictEqual(yield* oldest, Option.some(1_000))
        const [one, two] = yield* head(["p"], "a", 10)
        yield* remove([one?.seq ?? -1, 1_000_000])
        yield* rejected(two?.seq ?? -1, 2, "no")
        const [next] = yield* head(["p"], "a", 1)
        assert.strictEqual(next?.id, "2")
        assert.strictEqual(next?.rejections, 2)
        assert.strictEqual(next?.refusal, "no")
        assert.deepStrictEqual(yield* oldest, Option.some(2_000))
      })
    )
    test(
      "are found by all reads that run at the same time",
      Effect.gen(function* () {
        const { insert, head } = yield* store
        const subjects = Array.from({ length: 24 }, (_, i) => `s${i}`)
        for (let round = 0; round < 5; round++) {
          yield* insert(
            "p",
            subjects.map((subject) => row(`${round} ${subject}`, subject))
          )
          const found = yield* Effect.forEach(
            subjects,
            (subject, i) => Effect.andThen(Effect.repeat(turn, { times: i }), head(["p"], subject, 100)),
            { concurrency: "unbounded" }
          )
          assert.deepStrictEqual(
            found.map(({ length }) => length),
            subjects.map(() => round + 1)
          )
        }
      })
    )
    test(
      "keep bodies of any length, and any text",
      Effect.gen(function* () {
        const { bury, head, insert, showDead } = yield* store
        const headers = { key: `é 漢 "'\\ \ud83d\ude00` }
        const bodies = [[], [1, 2, 3], [0], []].map((bytes) => Uint8Array.from(bytes))
        yield* insert("p", [{ ...row("none"), body: new Uint8Array(0) }])
        yield* insert(
          "p",
          bodies.map((body, i) => ({ ...row(`é'${i}`), body, headers }))
        )
        const [first, ...rest] = yield* head(["p"], "a", 10)
        assert.strictEqual(first?.body.byteLength, 0)
        assert.deepStrictEqual(
          rest.map(({ id, body, headers }) => ({ id, body: [...body], headers })),
          bodies.map((body, i) => ({ id: `é'${i}`, body: [...body], headers }))
        )
        yield* bury({ seqs: [first?.seq ?? 0] }, { reason: "rejected", detail: "no", at: 0 })
        assert.strictEqual(Option.getOrUndefined(yield* showDead("none"))?.body.byteLength, 0)
      })
    )
    test(
      "in thousands are stored and removed",
      Effect.gen(function* () {
        const { insert, head, remove, totals } = yield* store
        yield* insert(
          "p",
          Array.from({ length: 3_000 }, (_, i) => row(`${i}`))
        )
        const all = yield* head(["p"], "a", 10_000)
        assert.deepStrictEqual(
          idsOf(all),
          Array.from({ length: 3_000 }, (_, i) => `${i}`)
        )
        yield* remove(all.map(({ seq }) => seq))
        assert.strictEqual((yield* totals).events, 0)
      })
    )
  })

  describe("publishers", () => {
    test(
      "beat while they are held, can be claimed once, and are released",
      Effect.gen(function* () {
        const { insert, hold, beat, others, claim, release } = yield* store
        yield* hold("p", "one")
        yield* insert("p", [row("1")])
        assert.deepStrictEqual(yield* beat("one"), ["p"])
        const [seen] = yield* others("two")
        assert.deepStrictEqual(seen, { id: "p", holder: "one", beat: 1 })
        if (seen === undefined) return
        yield* beat("one")
        assert.isFalse(yield* claim(seen, "two"), "it has beaten since")
        const [again] = yield* others("two")
        assert.isTrue(yield* claim(again ?? seen, "two"))
        assert.isFalse(yield* claim(again ?? seen, "three"))
        assert.deepStrictEqual(yield* beat("one"), [])
        yield* release("two")
        assert.deepStrictEqual(yield* others("three"), [{ id: "p", holder: "", beat: released }])
      })
    )
    test(
      "without events are forgotten, those with events are not",
      Effect.gen(function* () {
        const { beat, insert, hold, others, forget, release } = yield* store
        yield* hold("empty", "one")
        yield* hold("full", "one")
        yield* insert("full", [row("1")])
        yield* forget("full", "one")
        yield* forget("empty", "two")
        assert.deepStrictEqual((yield* beat("one")).toSorted(), ["empty", "full"])
        yield* forget("empty", "one")
        assert.deepStrictEqual(idsOf(yield* others("two")), ["full"])
        yield* hold("empty", "one")
        yield* release("one")
        assert.deepStrictEqual(idsOf(yield* others("two")), ["full"])
      })
    )
    test(
      "whose row is gone while they have events can be claimed",
      Effect.gen(function* () {
        const { insert, others, claim, beat } = yield* store
        yield* insert("lost", [row("1")])
        const [seen] = yield* others("two")
        assert.deepStrictEqual(seen, { id: "lost", holder: "", beat: released })
        if (seen !== undefined) assert.isTrue(yield* claim(seen, "two"))
        assert.deepStrictEqual(yield* beat("two"), ["lost"])
      })
    )
  })

  describe("dead letters", () => {
    test(
      "are made of stored events, those named or the oldest, and carry the reason",
      Effect.gen(function* () {
        const { insert, head, bury, listDead, totals } = yield* store
        yield* insert("p", [row("1"), row("2"), row("3")])
        const [, second] = yield* head(["p"], "a", 10)
        const why = { reason: "rejected" as const, detail: "no stream", at: 9_000 }
        const buried = yield* bury({ seqs: [second?.seq ?? -1, 77_777] }, why)
        assert.deepStrictEqual(buried, { events: 1, bytes: 10, which: [{ id: "2", subject: "a" }] })
        assert.deepStrictEqual(idsOf((yield* bury({ oldest: 1 }, { ...why, reason: "shed" })).which), ["1"])
        const letters = yield* listDead({}, { limit: 10 })
        assert.deepStrictEqual(
          letters.map(({ id, reason, detail, state, at, key }) => ({ id, reason, detail, state, at, key })),
          [
            { id: "1", reason: "shed", detail: "no stream", state: "dead", at: 9_000, key: "outbox/1" },
            { id: "2", reason: "rejected", detail: "no stream", state: "dead", at: 9_000, key: "outbox/2" }
          ]
        )
        assert.deepStrictEqual(idsOf(yield* head(["p"], "a", 10)), ["3"])
        assert.deepStrictEqual(yield* totals, { events: 1, bytes: 10, dead: 2 })
      })
    )
    test(
      "are written once for each key",
      Effect.gen(function* () {
        const { writeDead, listDead } = yield* store
        assert.isTrue(yield* writeDead(letter("s/1/w")))
        assert.isFalse(yield* writeDead({ ...letter("s/1/w"), detail: "again" }))
        const letters = yield* listDead({}, { limit: 10 })
        assert.deepStrictEqual(
          letters.map(({ detail }) => detail),
          ["never acknowledged"]
        )
      })
    )
    test(
      "are found by id, number, subject, pattern, reason and time, page by page",
      Effect.gen(function* () {
        const { writeDead, listDead, showDead, countDead } = yield* store
        yield* writeDead(letter("1", "orders.created", 1_000))
        yield* writeDead(letter("2", "orders.paid", 2_000))
        yield* writeDead(letter("3", "orders.eu.paid", 3_000))
        yield* writeDead(letter("4", "or_ers.paid", 4_000))
        const keys = (filter: Parameters<typeof listDead>[0]) =>
          Effect.map(listDead(filter, { limit: 10 }), (found) => found.map(({ key }) => key))
        assert.deepStrictEqual(yield* keys({}), ["4", "3", "2", "1"])
        assert.deepStrictEqual(yield* keys({ subject: "orders.*" }), ["2", "1"])
        assert.deepStrictEqual(yield* keys({ subject: "orders.>" }), ["3", "2", "1"])
        assert.deepStrictEqual(yield* keys({ subject: "orders.paid" }), ["2"])
        assert.deepStrictEqual(yield* keys({ since: 2_000, before: 4_000 }), ["3", "2"])
        assert.deepStrictEqual(yield* keys({ reason: "rejected" }), [])
        assert.deepStrictEqual(yield* keys({ ids: ["id-1", "id-3"] }), ["3", "1"])
        assert.deepStrictEqual(yield* keys({ ids: [] }), [])
        assert.strictEqual(yield* countDead({ subject: "orders.>" }), 3)
        const many = Array.from({ length: 40_000 }, (_, n) => String(n + 100))
        assert.deepStrictEqual(yield* keys({ ids: [...many, "id-1", "id-3"] }), ["3", "1"])
        const [newest] = yield* listDead({}, { limit: 1 })
        const rest = yield* listDead({}, { limit: 2, below: newest?.number ?? 0 })
        assert.deepStrictEqual(
          rest.map(({ key }) => key),
          ["3", "2"]
        )
        assert.strictEqual(Option.getOrThrow(yield* showDead(String(newest?.number))).key, "4")
        assert.strictEqual(Option.getOrThrow(yield* showDead("id-2")).key, "2")
        assert.isTrue(Option.isNone(yield* showDead("id-9")))
      })
    )
    test(
      "that are replayed are events again with a fresh broker id each time, and keep their history",
      Effect.gen(function* () {
        const { insert, head, bury, replayDead, listDead, showDead, others } = yield* store
        const why = { reason: "rejected" as const, detail: "no", at: 1 }
        yield* insert("p", [row("1"), row("2")])
        yield* bury({ oldest: 1 }, why)
        const [first] = yield* replayDead({}, 10, { at: 2, by: "me" })
        assert.deepStrictEqual(yield* replayDead({}, 10, { at: 3, by: "me" }), [], "it is replayed already")
        assert.deepStrictEqual(yield* listDead({}, { limit: 10 }), [])
        assert.strictEqual((yield* listDead({ replayed: true }, { limit: 10 })).length, 1)
        assert.deepStrictEqual(idsOf(yield* others("x")), ["p", "replay"])
        const [, again] = yield* head(["p", "replay"], "a", 10)
        assert.strictEqual(again?.id, "1")
        assert.strictEqual(again?.brokerId, first?.brokerId)
        assert.notStrictEqual(again?.brokerId, "1")
        yield* bury({ seqs: [again?.seq ?? -1] }, { ...why, at: 4 })
        const [second] = yield* replayDead({}, 10, { at: 5, by: "you" })
        assert.notStrictEqual(second?.brokerId, first?.brokerId)
        const shown = Option.getOrThrow(yield* showDead("1"))
        assert.deepStrictEqual(
          shown.history.map(({ at, what }) => `${at} ${what}`),
          ["1 died", "2 replayed", "4 died", "5 replayed"]
        )
        assert.strictEqual(shown.replays, 2)
        assert.strictEqual(shown.state, "replayed")
      })
    )
    test(
      "are purged by filter",
      Effect.gen(function* () {
        const { writeDead, purgeDead, listDead } = yield* store
        yield* writeDead(letter("1", "a.x", 1_000))
        yield* writeDead(letter("2", "a.y", 2_000))
        yield* writeDead(letter("3", "b", 3_000))
        assert.strictEqual(yield* purgeDead({ subject: "a.*", before: 2_000 }), 1)
        assert.strictEqual(yield* purgeDead({ subject: "c" }), 0)
        assert.deepStrictEqual(
          (yield* listDead({}, { limit: 10 })).map(({ key }) => key),
          ["3", "2"]
        )
        assert.strictEqual(yield* purgeDead({}), 2)
      })
    )
    it.effect("beyond the cap or the time to live go, the oldest first", () =>
      Effect.gen(function* () {
        const { writeDead, trimDead, listDead } = yield* store
        for (let i = 1; i <= 5; i++) yield* writeDead(letter(String(i), "a", i * 1_000))
        assert.strictEqual(yield* trimDead(61_500), 2, "one too old, one too many")
        assert.deepStrictEqual(
          (yield* listDead({}, { limit: 10 })).map(({ key }) => key),
          ["5", "4", "3"]
        )
        assert.strictEqual(yield* trimDead(61_500), 0)
      }).pipe(
        Effect.provide(subject.layer({ deadLetters: { cap: 3, ttl: "1 minute", whenFull: "shedOldest" } }))
      )
    )
    it.effect("at the cap are refused as full, until one was replayed, and none is dropped for it", () =>
      Effect.gen(function* () {
        const { bury, head, insert, listDead, replayDead, trimDead, writeDead } = yield* store
        const why = { reason: "rejected", detail: "", at: 2_000 } as const
        yield* insert("p", [row("e", "a")])
        const [stored] = yield* head(["p"], "a", 1)
        const seqs = [stored?.seq ?? assert.fail()]
        for (const n of ["1", "2"]) yield* writeDead(letter(n, "a", 1_000))
        // One that is known is no further one.
        assert.isFalse(yield* writeDead(letter("2", "a", 1_000)))
        for (const refused of [
          Effect.asVoid(writeDead(letter("3", "a", 1_000))),
          Effect.asVoid(bury({ seqs }, why))
        ]) {
          const error = yield* Effect.flip(refused)
          assert.strictEqual(error.reason, "full")
          assert.include(error.message, "2 of them, which is their cap")
        }
        assert.lengthOf(yield* head(["p"], "a", 1), 1)
        assert.strictEqual(yield* trimDead(2_000), 0)
        const [replayed] = yield* replayDead({ ids: ["1"] }, 1, { at: 2_000, by: "ada" })
        assert.isDefined(replayed)
        assert.strictEqual((yield* bury({ seqs }, why)).events, 1)
        assert.strictEqual(yield* trimDead(2_000), 1)
        assert.sameMembers(
          (yield* listDead({ replayed: true }, { limit: 10 })).map(({ id }) => id),
          ["id-2", "e"]
        )
      }).pipe(Effect.provide(subject.layer({ deadLetters: { cap: 2 } })))
    )
    it.effect("that made room in a full outbox go at the cap, the oldest first", () =>
      Effect.gen(function* () {
        const { bury, insert, listDead, trimDead, writeDead } = yield* store
        yield* writeDead(letter("1", "a", 1_000))
        yield* insert("p", [row("e", "a"), row("f", "a")])
        yield* bury({ oldest: 2 }, { reason: "shed", detail: "", at: 2_000 })
        assert.strictEqual(yield* trimDead(2_000), 1)
        assert.sameMembers(
          (yield* listDead({}, { limit: 10 })).map(({ id }) => id),
          ["id-1", "f"]
        )
      }).pipe(Effect.provide(subject.layer({ deadLetters: { cap: 2 } })))
    )
  })
})
