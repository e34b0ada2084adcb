/**
 * The tools of the chat: the time, and reading the files of one folder. Nothing outside the folder is read, no hidden
 * file, and nothing is written.
 */
import { Clock, Effect, FileSystem, Option, Path, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import * as FakeModel from "./FakeModel.ts"

export const kit = Toolkit.make(
  Tool.make("current_time", {
    description: "Returns the current date and time.",
    success: Schema.String
  }).annotate(Tool.Readonly, true),
  Tool.make("list_files", {
    description: "Lists the files of the folder.",
    success: Schema.String
  }).annotate(Tool.Readonly, true),
  Tool.make("read_file", {
    description: "Reads a file of the folder, by a name that list_files gives.",
    parameters: Schema.Struct({ path: Schema.String }),
    success: Schema.String
  }).annotate(Tool.Readonly, true)
)

/** Files that are listed, at most. */
const maxFiles = 200
/** Characters of a file that are read, at most. */
const maxLength = 40_000

/** A folder of log files for the fake model. Removed with the scope. */
export const sample = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const folder = yield* fs.makeTempDirectoryScoped({ prefix: "outlast-chat-" })
  for (let n = 1; n <= FakeModel.files; n++) {
    const { name, content } = FakeModel.file(n)
    yield* fs.writeFileString(path.join(folder, name), content)
  }
  return yield* fs.realPath(folder)
})

/**
 * Handlers over a folder. Only its own files are listed and read, without those of its folders. Each result names the
 * next file. A mistake of the model is a text that it can read.
 */
export const layer = (folder: string | undefined) =>
  kit.toLayer(
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const path = yield* Path.Path
      const names = Effect.gen(function* () {
        if (folder === undefined) return []
        const found: Array<string> = []
        for (const name of (yield* fs.readDirectory(folder)).toSorted()) {
          if (found.length === maxFiles) break
          if (name.startsWith(".")) continue
          const full = path.join(folder, name)
          // A link may lead out of the folder, or nowhere.
          if (Option.getOrUndefined(yield* Effect.option(fs.realPath(full))) !== full) continue
          if ((yield* fs.stat(full)).type === "File") found.push(name)
        }
        return found
      })
      const empty = folder === undefined ? "The user has given no folder." : "The folder has no files."
      const unreadable = Effect.catch(() => Effect.succeed("The folder cannot be read."))
      const next = (name: string | undefined) => (name === undefined ? "(last file)" : `(next: ${name})`)
      return {
        current_time: () => Effect.map(Clock.currentTimeMillis, (now) => new Date(now).toString()),
        list_files: () =>
          Effect.map(names, (found) =>
            found.length === 0 ? empty : `${found.length} files ${next(found[0])}\n${found.join("\n")}`
          ).pipe(unreadable),
        read_file: ({ path: name }: { readonly path: string }) =>
          Effect.gen(function* () {
            const found = yield* names
            const at = found.indexOf(name)
            if (at < 0) return `There is no file ${name}. list_files shows what there is.`
            const text = yield* fs.readFileString(path.join(folder ?? "", name))
            const cut =
              text.length > maxLength ? `${text.slice(0, maxLength)}\n[The rest is left out.]` : text
            return `file ${at + 1} of ${found.length} ${next(found[at + 1])}\n${cut}`
          }).pipe(unreadable)
      }
    })
  )
