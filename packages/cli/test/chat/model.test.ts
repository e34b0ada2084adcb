/** The fake model and the tools of the chat. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Effect, FileSystem, Path, Stream } from "effect"
import * as FakeModel from "#cli/chat/FakeModel"
import * as Workspace from "#cli/chat/Workspace"

const asked = (text: string) => FakeModel.answers({ turn: 0, messages: [{ role: "user", text }] })

describe("the fake model", () => {
  it("answers by the words of the last message", () => {
    assert.include(asked("Tell me a joke").text, "retry")
    assert.strictEqual(asked("Count to 5").text, "1 2 3 4 5")
    assert.strictEqual(asked("What time is it?").toolCalls?.[0]?.name, "current_time")
    assert.strictEqual(asked("Read many files").toolCalls?.[0]?.name, "list_files")
    assert.include(asked("What else?").text, "fixed answers")
  })

  it("writes code that the first output limit of s11 cuts, without a line twice", () => {
    const { text = "", chunk } = asked("Generate a very long piece of code")
    assert.strictEqual(chunk, 1)
    assert.isAbove(text.length, 8_000)
    const lines = text.trimEnd().split("\n")
    assert.strictEqual(new Set(lines).size, lines.length)
  })

  it("has files that are too long for its window together, and not alone", () => {
    const tokens = Array.from({ length: FakeModel.files }, (_, n) => FakeModel.file(n + 1).content.length / 4)
    assert.isAbove(
      tokens.reduce((sum, each) => sum + each, 0),
      FakeModel.window
    )
    assert.isBelow(Math.max(...tokens), FakeModel.window / 4)
  })

  it("is slow only when it counts", () => {
    const pace = (text: string) => FakeModel.paceOf([{ role: "user", text }], 12)
    assert.deepStrictEqual([pace("Hello"), pace("a long piece of code"), pace("count to 9")], [12, 0, 50])
  })
})

describe("the tools", () => {
  const inFolder = Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const folder = yield* fs.realPath(yield* fs.makeTempDirectoryScoped())
    const put = (name: string, content: string) => fs.writeFileString(path.join(folder, name), content)
    yield* put("b.txt", "x".repeat(50_000))
    yield* put("a.txt", "first")
    yield* put(".env", "SECRET=1")
    yield* fs.makeDirectory(path.join(folder, "inner"))
    yield* fs.symlink(path.join(folder, ".env"), path.join(folder, "link.txt"))
    yield* fs.symlink(path.join(folder, "gone"), path.join(folder, "broken.txt"))
    return folder
  })
  const used = (folder: string | undefined) =>
    Effect.map(Effect.provide(Workspace.kit, Workspace.layer(folder)), (kit) => ({
      list: Effect.flatMap(kit.handle("list_files", {}), Stream.runCollect),
      read: (path: string) => Effect.flatMap(kit.handle("read_file", { path }), Stream.runCollect)
    }))
  const textOf = (results: Iterable<{ readonly result: unknown }>) => String([...results].at(-1)?.result)

  it.effect("list the files of the folder, without hidden files, links and folders", () =>
    Effect.gen(function* () {
      const { list } = yield* used(yield* inFolder)
      assert.strictEqual(textOf(yield* list), "2 files (next: a.txt)\na.txt\nb.txt")
    }).pipe(Effect.provide(NodeServices.layer))
  )

  it.effect("read what is listed, and cut what is long", () =>
    Effect.gen(function* () {
      const { read } = yield* used(yield* inFolder)
      assert.strictEqual(textOf(yield* read("a.txt")), "file 1 of 2 (next: b.txt)\nfirst")
      assert.match(
        textOf(yield* read("b.txt")),
        /^file 2 of 2 \(last file\)\nx{40000}\n\[The rest is left out\.\]$/
      )
      for (const name of [".env", "link.txt", "inner", "../a.txt", "/etc/hostname"]) {
        assert.match(textOf(yield* read(name)), /^There is no file/)
      }
    }).pipe(Effect.provide(NodeServices.layer))
  )

  it.effect("find nothing without a folder", () =>
    Effect.gen(function* () {
      const { list } = yield* used(undefined)
      assert.strictEqual(textOf(yield* list), "The user has given no folder.")
    }).pipe(Effect.provide(NodeServices.layer))
  )
})
