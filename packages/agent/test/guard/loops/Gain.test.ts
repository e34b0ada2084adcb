import { assert, describe, it } from "@effect/vitest"
import type { FileEdit } from "@outlast/agent/guard/loops/FileEdit"
import * as fc from "fast-check"
import { gainOf, words } from "./support.ts"

const page = `Installing the package

Run npm install in the folder of the project, then import the client and give it a key. The client retries what fails
for a while, and tells of what it gave up. See the options for how often, and for how long.`

const failure = `FAIL src/parse.test.ts > reads a date
AssertionError: expected 'Jan 2' to equal 'Jan 3'
 ❯ src/parse.test.ts:14:20
Test Files  1 failed (1)
Tests  1 failed | 6 passed (7)`

describe("a call tells something", () => {
  it("when enough of its words are new", () => {
    const gain = gainOf({ result: page, met: [failure] })
    assert.isTrue(gain.told)
    assert.isTrue(gain.teaches)
    assert.isTrue(gain.isNew)
    assert.isFalse(gain.tries)
  })

  it("not when all was met, in whatever order and by whatever call", () => {
    for (const result of [page, page.split("\n").toReversed().join("\n"), page.toUpperCase()]) {
      const gain = gainOf({ result, met: [page] })
      assert.isFalse(gain.told)
      assert.isFalse(gain.isNew)
    }
  })

  it("when one word in twenty is new; fewer are a detail", () => {
    const text = words(0, 95)
    const gain = (fresh: number) => gainOf({ result: `${text} ${words(1_000, fresh)}`, met: [text] })
    assert.isFalse(gain(4).told)
    assert.isTrue(gain(4).tries)
    assert.isTrue(gain(5).told)
    assert.isFalse(gain(5).tries)
  })

  it("when it had failed and now does not", () => {
    const gain = gainOf({ result: "all well", earlier: ["failed"], met: ["all is well"] })
    assert.isTrue(gain.recovers)
    assert.isTrue(gain.isNew)
    assert.isFalse(gainOf({ result: "all well", earlier: ["fine"], met: ["all is well"] }).isNew)
    // It went well like this before: it goes to and fro.
    assert.isFalse(gainOf({ result: "all well", earlier: ["failed"], met: ["all well"] }).recovers)
  })

  it("when its numbers go on", () => {
    const of = (...done: ReadonlyArray<string>) =>
      gainOf({
        result: done.at(-1),
        earlier: done.slice(0, -1),
        met: ["running of done left 30 40 50 60 2 3 9"]
      })
    assert.isTrue(of("running 30 of 90", "running 40 of 90").teaches)
    assert.isTrue(of("60 left", "50 left", "40 left").teaches)
    assert.isFalse(of("60 left", "40 left", "60 left").teaches)
    assert.isFalse(of("60 left", "60 left", "60 left").teaches)
  })

  it("not when it is a thought, whatever it says", () => {
    const gain = gainOf({ result: page, nature: "thought" })
    assert.isFalse(gain.teaches || gain.isNew || gain.tries || gain.stirs)
  })

  it("of any length: what of it is not remembered is not new the next time", () => {
    for (const count of [400, 600, 3_000, 9_000, 20_000]) {
      const text = words(0, count)
      assert.isTrue(gainOf({ result: text, nature: "read" }).told, `${count} words`)
      const again = gainOf({ result: text, nature: "read", earlier: [text] })
      assert.isFalse(again.isNew, `${count} words`)
      assert.isFalse(again.tries, `${count} words`)
      const lines = Array.from({ length: count }, (_, i) => `row ${i} is ${i + 7}`).join("\n")
      const once = gainOf({ result: lines, nature: "read", earlier: [lines] })
      assert.isFalse(once.isNew || once.tries || once.moved || once.measures, `${count} lines`)
    }
    const few = words(0, 40).split(/\s+/)
    const pairs = few.flatMap((one) => few.map((other) => `${one} ${other}`)).join("\n")
    assert.isFalse(gainOf({ result: pairs, nature: "read", earlier: [pairs] }).tries)
  })
})

describe("a call goes through a list", () => {
  const known = "created user active name email id the last of status"

  it("when it asked for the next thing and got it", () => {
    const next = { nature: "act", subject: "next", met: [known] } as const
    assert.isTrue(gainOf({ ...next, result: "created" }).isNew)
    assert.isFalse(gainOf({ ...next, result: "created", subject: "known", earlier: ["created"] }).isNew)
    assert.isFalse(gainOf({ ...next, result: "created", failed: true }).isNew)
    assert.isFalse(gainOf({ ...next, result: [] }).isNew)
    assert.isFalse(gainOf({ ...next, result: "created", nature: "poke" }).isNew)
  })

  it("not when it edits: what edits bring is seen by the check", () => {
    const edit: FileEdit = { path: "a", before: 1, after: 2, adds: false }
    assert.isFalse(gainOf({ nature: "act", subject: "next", met: [known], edit, result: "created" }).isNew)
  })

  it("when records come with ids that are new", () => {
    const page = (from: number) =>
      Array.from({ length: 4 }, (_, i) => ({ id: `usr_${from + i}a8f3b1c9`, status: "active" }))
    assert.isTrue(gainOf({ result: page(40), met: [page(10)], subject: "next" }).isNew)
    assert.isTrue(gainOf({ result: page(40), met: [page(10)], subject: "known" }).isNew)
    assert.isFalse(gainOf({ result: page(10), met: [page(10)], subject: "next" }).isNew)
  })

  it("when the next part of a log has later times", () => {
    const log = (minute: number) =>
      Array.from({ length: 6 }, (_, i) => `2026-01-02T03:${minute}:0${i}Z error: connection lost`).join("\n")
    assert.isTrue(gainOf({ result: log(20), met: [log(10)], subject: "next" }).isNew)
    assert.isFalse(gainOf({ result: log(10), met: [log(10)], subject: "next" }).isNew)
    assert.isFalse(gainOf({ result: log(20), met: [log(10)], subject: "known" }).isNew)
  })

  it("when a tool that goes on by itself has come to another", () => {
    const message = (id: number) => ({ order: id, item: "pen" })
    const given = {
      nature: "advance",
      met: ["order item pen"],
      earlier: [message(7_001), message(7_002)]
    } as const
    assert.isTrue(gainOf({ ...given, result: message(7_003) }).isNew)
    assert.isFalse(gainOf({ ...given, result: message(7_002) }).isNew)
    assert.isFalse(gainOf({ ...given, result: message(7_001) }).isNew)
  })
})

describe("a call tries something", () => {
  it("when it does what was not done before", () => {
    assert.isTrue(gainOf({ result: "ok", met: ["ok"], nature: "act" }).tries)
    assert.isFalse(gainOf({ result: "ok", met: ["ok"], nature: "act", earlier: ["ok"] }).tries)
    assert.isFalse(gainOf({ result: "ok", met: ["ok"], nature: "act", failed: true }).tries)
    assert.isFalse(gainOf({ result: "ok", met: ["ok"], nature: "read" }).tries)
  })

  it("when a line of a known call is new", () => {
    const lines = ["alpha beta gamma delta", "beta gamma", "delta alpha"]
    const result = [...lines.slice(1), "gamma alpha"].join("\n")
    assert.isTrue(gainOf({ result, earlier: [lines.join("\n")] }).tries)
    assert.isFalse(gainOf({ result: lines.toReversed().join("\n"), earlier: [lines.join("\n")] }).tries)
  })

  it("and something goes on then", () => {
    assert.isTrue(gainOf({ result: "ok", met: ["ok"], nature: "act" }).stirs)
    assert.isFalse(gainOf({ result: "ok", met: ["ok"], nature: "act", earlier: ["ok"] }).stirs)
  })
})

describe("a call passes", () => {
  it("when it asked for the next thing and found nothing special", () => {
    assert.isTrue(gainOf({ result: "no matches", met: ["no matches"], subject: "next" }).passes)
    assert.isTrue(gainOf({ result: "no matches", met: ["no matches"], subject: "other" }).passes)
    assert.isFalse(gainOf({ result: "no matches", met: ["no matches"], subject: "known" }).passes)
    assert.isFalse(gainOf({ result: "no matches", subject: "next", failed: true }).passes)
    assert.isFalse(gainOf({ result: page, met: [page], subject: "next" }).passes)
    assert.isFalse(gainOf({ result: "no matches", subject: "next", nature: "poke" }).passes)
  })
})

describe("a call about the next thing", () => {
  const words = "guide to all the parts that this server has since it was made for you".split(" ")
  const met = [words.join(" "), "left 40 steps to go now"]

  it("passes when it found little, in words that are known; a page that is the same for all is none", () => {
    const asks = (subject: "next" | "later", found: string) =>
      gainOf({ subject, args: { q: "gauges" }, met: [...met, page], result: found })
    const short = words.toReversed().join(" ")
    assert.isTrue(asks("next", short).passes)
    assert.isFalse(asks("later", short).passes)
    assert.isFalse(asks("next", page).passes)
  })

  it("tries something when it answers with another number, but not where only the moment is another", () => {
    const does = { nature: "act", evaluates: true, met, result: "left 20 steps to go now" } as const
    assert.isTrue(gainOf({ ...does, subject: "known" }).tries)
    assert.isFalse(gainOf({ ...does, subject: "later" }).tries)
    assert.isFalse(gainOf({ ...does, subject: "known", result: "left 40 steps to go now" }).tries)
  })
})

describe("a call measures", () => {
  it("when it is mostly numbers, and they are new", () => {
    assert.isTrue(gainOf({ result: "load 41 91 17", met: ["load"] }).measures)
    assert.isFalse(gainOf({ result: "load 41 91 17", met: ["load 91 17 41"] }).measures)
    assert.isFalse(gainOf({ result: `took 41 for ${words(0, 30)}`, met: [words(0, 30)] }).measures)
  })

  it("when its numbers have moved to where they were not", () => {
    const of = (...loads: ReadonlyArray<number>) => {
      const texts = loads.map((load) => `load is ${load} now`)
      return gainOf({ result: texts.at(-1), earlier: texts.slice(0, -1) }).moved
    }
    assert.isTrue(of(41, 97))
    assert.isFalse(of(41, 41))
    assert.isFalse(of(41, 97, 41))
  })
})

describe("a call fails", () => {
  it("when the host says so, or its result says that it was not done, but for a tool that looks", () => {
    assert.isTrue(gainOf({ result: "ok", failed: true }).failed)
    assert.isTrue(gainOf({ result: { acquired: false }, nature: "act" }).failed)
    assert.isFalse(gainOf({ result: { ok: false }, nature: "read" }).failed)
    assert.isTrue(gainOf({ result: failure, nature: "act" }).troubled)
    assert.isFalse(gainOf({ result: failure, nature: "act" }).failed)
  })

  it("and waits when it says so, or time was let pass before it", () => {
    assert.isTrue(gainOf({ result: { state: "queued" } }).waiting)
    assert.isTrue(gainOf({ result: "ok", paused: true }).waiting)
    assert.isFalse(gainOf({ result: "ok" }).waiting)
  })
})

describe("the answer of an action", () => {
  it("is one if it has something to say", () => {
    const known = words(0, 30)
    const of = (result: unknown, evaluates = false) =>
      gainOf({ result, met: [known], nature: "act", evaluates }).answers
    assert.isTrue(of(known))
    assert.isTrue(of([]))
    assert.isFalse(of("done so far"))
    assert.isTrue(of("done so far", true))
    assert.isFalse(of("done", true))
  })
})

describe("what a call brings", () => {
  const result = fc.oneof(
    fc.constantFrom("ok", "failed", "", "no matches", "pending", page, failure, "3/12", "5/12", "load 41"),
    fc.jsonValue()
  )
  const nature = fc.constantFrom("read", "act", "poke", "thought", "advance")
  const subject = fc.constantFrom("known", "next", "other")

  it("is nothing when the same call brought the same, all of it, just before", () => {
    fc.assert(
      fc.property(
        result,
        nature,
        fc.boolean(),
        fc.array(result, { maxLength: 3 }),
        (result, nature, failed, met) => {
          const gain = gainOf({ result, nature, failed, met, earlier: [result] })
          assert.isFalse(gain.isNew || gain.tries || gain.moved || gain.recovers || gain.told)
          assert.isTrue(gain.sameWords)
        }
      )
    )
  })

  it("is new or tried or neither, and told only if it teaches", () => {
    fc.assert(
      fc.property(
        result,
        nature,
        subject,
        fc.boolean(),
        fc.array(result),
        (result, nature, subject, failed, met) => {
          const gain = gainOf({ result, nature, subject, failed, met })
          assert.isFalse(gain.isNew && gain.tries)
          if (gain.teaches) assert.isTrue(gain.isNew)
          if (gain.told && nature !== "thought") assert.isTrue(gain.teaches)
          if (gain.tries) assert.isTrue(gain.stirs)
          if (gain.failed) assert.isTrue(gain.troubled)
        }
      )
    )
  })
})
