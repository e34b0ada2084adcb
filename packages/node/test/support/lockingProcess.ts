/**
 * Another program that uses a database: `lockingProcess.ts <path>`. `lock` takes the write lock, `exclusive` also
 * excludes readers, `commit` releases it, `ping` answers.
 */
import { DatabaseSync } from "node:sqlite"
import * as Child from "./Child.ts"

const database = new DatabaseSync(process.argv[2] ?? "")
const answers: Readonly<Record<string, () => string>> = {
  lock: () => {
    database.exec("BEGIN IMMEDIATE")
    return "locked"
  },
  exclusive: () => {
    // Outside of WAL mode, so that readers are excluded, too.
    database.exec("PRAGMA journal_mode=DELETE; BEGIN EXCLUSIVE")
    return "locked"
  },
  commit: () => {
    database.exec("COMMIT")
    return "committed"
  },
  ping: () => "pong"
}
Child.commands((line) => console.log(answers[line]?.()))
console.log("ready")
