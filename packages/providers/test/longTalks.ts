/** Deterministic long conversations of agents, in several languages and kinds of content. */
import { readFileSync } from "node:fs"
import { createRequire } from "node:module"
import { Schema } from "effect"
import { Prompt, Tool } from "effect/ai"

const english = `The release went out on Tuesday, and by Wednesday morning three customers had written to say that exports were slow.
We looked at the traces first, because guessing at the cause of a slow query has never once saved us any time.
It turned out that the index had been dropped by a migration that nobody remembered approving.
My suggestion would be to restore it tonight, when the load is lowest, and to measure again before we promise anything.
If you would rather wait for the maintenance window, we can raise the limit on the pool and hope that it holds.
There is one more thing: the retry in the client multiplies the load exactly when the server can least afford it.
I have read the whole file twice and I still do not understand why the second branch exists at all.
The tests pass, but they pass because the clock is mocked; in production the order of the two events is not guaranteed.
Could you please explain what the function returns when the list is empty and the caller did not pass a default?
She wrote that the contract ends in autumn and that they will not renew it unless the reports arrive on time.
Nothing in the documentation says so, but the endpoint returns at most five hundred rows, whatever you ask for.
A short summary for the impatient: it was the cache, it is always the cache, and we should have known.
Let me check the configuration of the staging environment before I change anything that others depend on.
The committee met four times, argued about names for three of them, and approved the budget in ten minutes.
I would keep the old behaviour behind a flag for one version, then remove the flag together with the code.
What surprised us most was how little of the time was spent in our own code.`
const chinese = `这个版本星期二发布以后，星期三早上就有三个客户来信说导出功能变得非常慢。
我们先看了链路追踪，因为凭感觉猜测慢查询的原因从来没有节省过时间。
结果发现索引被一次没有人记得批准过的数据库迁移删除了。
我的建议是今天晚上负载最低的时候恢复索引，然后重新测量，再向客户做出承诺。
如果您愿意等到维护窗口，我们可以先提高连接池的上限，希望它能够坚持住。
还有一件事情：客户端的重试恰恰在服务器最脆弱的时候把压力成倍放大。
整个文件我读了两遍，仍然不明白为什么会有第二个分支。
测试虽然通过了，但那是因为时钟被模拟了；在生产环境里两个事件的先后顺序并没有保证。
请问当列表为空而调用者又没有传入默认值的时候，这个函数会返回什么？
她写道合同将在秋天到期，如果报表不能按时送达，他们就不会续签。
文档里没有写明，但是无论请求多少，接口最多只返回五百行数据。
在修改其他人所依赖的配置之前，请让我先检查一下预发布环境。
最让我们惊讶的是，真正花在我们自己代码上的时间少得可怜。
苏州的古典园林以小巧精致著称，一步一景，四季不同。`
const japanese = `火曜日にリリースしたところ、水曜日の朝には三社のお客様からエクスポートが遅いという連絡がありました。
まずトレースを確認しました。遅いクエリの原因を勘で当てようとして時間が節約できたことは一度もないからです。
調べてみると、誰も承認した覚えのないマイグレーションでインデックスが削除されていました。
負荷が最も低い今夜のうちに復元し、もう一度計測してからお客様にお答えするのがよいと思います。
メンテナンスの時間まで待つ場合は、接続プールの上限を上げて様子を見ることもできます。
もう一つ問題があります。クライアントの再試行が、サーバーが一番苦しいときに負荷を何倍にもしているのです。
ファイル全体を二回読みましたが、二つ目の分岐がなぜ存在するのかまだ分かりません。
テストは通っていますが、それは時計がモックされているからで、本番では二つのイベントの順序は保証されていません。
リストが空で、呼び出し側が既定値を渡さなかった場合、この関数は何を返しますか。
契約は秋に終了し、レポートが期日どおりに届かなければ更新しないと書かれていました。
京都の秋は紅葉が美しく、毎年多くの観光客が訪れます。
一番驚いたのは、自分たちのコードで使われていた時間がほとんどなかったことです。`
const russian = `Выпуск вышел во вторник, а уже в среду утром три клиента написали, что выгрузка стала очень медленной.
Сначала мы посмотрели трассировки, потому что угадывание причин медленного запроса ещё ни разу не сэкономило нам времени.
Оказалось, что индекс был удалён миграцией, одобрения которой никто не помнит.
Я бы предложил восстановить его сегодня ночью, когда нагрузка минимальна, и измерить всё заново, прежде чем что-либо обещать.
Если вы предпочитаете дождаться окна обслуживания, можно увеличить предел пула соединений и надеяться, что он выдержит.
Есть ещё одно обстоятельство: повторные попытки клиента умножают нагрузку именно тогда, когда серверу тяжелее всего.
Я дважды прочитал весь файл и до сих пор не понимаю, зачем нужна вторая ветвь.
Тесты проходят, но лишь потому, что часы подменены; в рабочей среде порядок двух событий не гарантирован.
Объясните, пожалуйста, что возвращает функция, если список пуст, а вызывающий не передал значение по умолчанию?
Она написала, что договор заканчивается осенью и продлевать его не станут, если отчёты не будут приходить вовремя.
Больше всего нас удивило, как мало времени тратилось в нашем собственном коде.`

const lines = (text: string): ReadonlyArray<string> => text.split("\n")

/** A seeded random number generator: mulberry32. */
export const random = (seed: number) => {
  let state = seed
  const next = (): number => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
  const below = (n: number): number => Math.floor(next() * n)
  const of = <A>(all: ReadonlyArray<A>): A => {
    const one = all[below(all.length)]
    if (one === undefined) throw new Error("nothing to choose from")
    return one
  }
  return { below, of }
}
type Random = ReturnType<typeof random>

type Content = (random: Random, size: number) => string

const prose =
  (text: string, space: string): Content =>
  (random, size) =>
    Array.from({ length: Math.ceil(size / 60) }, () => random.of(lines(text))).join(space)

// A pinned dependency: real code that no commit of ours changes.
const source = readFileSync(
  createRequire(import.meta.url)
    .resolve("effect/package.json")
    .replace("package.json", "src/Schedule.ts"),
  "utf8"
)
const code: Content = (random, size) => {
  const from = random.below(source.length - size)
  return source.slice(from, from + size)
}

const hex = (random: Random, length: number) =>
  Array.from({ length }, () => "0123456789abcdef"[random.below(16)]).join("")

/** An API response: records with ids, times, numbers and words. */
const json: Content = (random, size) =>
  JSON.stringify({
    total: random.below(10_000),
    items: Array.from({ length: Math.ceil(size / 230) }, () => ({
      id: `${hex(random, 8)}-${hex(random, 4)}-${hex(random, 4)}`,
      created_at: `2026-0${1 + random.below(9)}-1${random.below(10)}T0${random.below(10)}:2${random.below(10)}:11.${random.below(1_000)}Z`,
      status: random.of(["open", "closed", "in_progress", "waiting_for_customer"]),
      amount_cents: random.below(1_000_000),
      title: random.of(lines(english)).slice(0, 50),
      labels: [random.of(["bug", "billing", "export"]), random.of(["p1", "p2", "p3"])]
    }))
  })

/** A table in a terminal, a log. */
const log: Content = (random, size) =>
  Array.from(
    { length: Math.ceil(size / 90) },
    () =>
      `2026-11-2${random.below(10)} 0${random.below(10)}:1${random.below(10)}:33.${random.below(1_000)} [${random.of(["INFO", "WARN", "ERROR"])}] worker-${random.below(40)} req=${hex(random, 12)} took ${random.below(9_000)}ms path=/api/v2/${random.of(["exports", "users", "invoices"])}`
  ).join("\n")

export interface Talk {
  readonly name: string
  readonly tools: ReadonlyArray<Tool.Any>
  readonly system: Prompt.SystemMessage
  /** The messages that each turn adds before the call (results or a user message), and the model's answer. */
  readonly turns: ReadonlyArray<{
    readonly before: ReadonlyArray<Prompt.Message>
    readonly answer: Prompt.AssistantMessage
  }>
}

const text = (text: string) => Prompt.makePart("text", { text })
const user = (...content: ReadonlyArray<Prompt.UserMessagePart>): Prompt.UserMessage =>
  Prompt.makeMessage("user", { content })

/** The header of a PNG, without an image. */
export const png = (width: number, height: number): Uint8Array => {
  const bytes = new Uint8Array(33)
  bytes.set([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 13, 0x49, 0x48, 0x44, 0x52])
  const view = new DataView(bytes.buffer)
  view.setUint32(16, width)
  view.setUint32(20, height)
  return bytes
}

const tools: ReadonlyArray<Tool.Any> = ["read_file", "search_issues", "run_command", "query_database"].map(
  (name) =>
    Tool.make(name, {
      description: `${name}: ${english.slice(0, 400)}`,
      parameters: Schema.Struct({
        path: Schema.String.annotate({ description: "Where, relative to the root of the workspace" }),
        limit: Schema.optional(Schema.Finite),
        mode: Schema.Literals(["fast", "exact", "everything"])
      })
    })
)

/** Turns of an agent that calls tools, and of people that talk. Sizes differ by up to a factor of ten. */
const talk = (
  name: string,
  seed: number,
  said: Content,
  results: ReadonlyArray<Content>,
  images = 0
): Talk => {
  const numbers = random(seed)
  const size = (most: number) => Math.ceil(most / 10) + numbers.below(most)
  let open: string | undefined
  const turns = Array.from({ length: 40 }, (_, n) => {
    const before: Array<Prompt.Message> =
      open === undefined
        ? [user(text(said(numbers, size(800))))]
        : [
            Prompt.makeMessage("tool", {
              content: [
                Prompt.makePart("tool-result", {
                  id: open,
                  name: "read_file",
                  result: numbers.of(results)(numbers, size(6_000)),
                  isFailure: false,
                  providerExecuted: false
                })
              ]
            })
          ]
    if (images > 0 && n % images === 0) {
      before.push(
        user(
          text(said(numbers, 60)),
          Prompt.makePart("file", {
            mediaType: "image/png",
            data: png(600 + numbers.below(900), 500 + numbers.below(500))
          })
        )
      )
    }
    const calls = results.length > 0 && numbers.below(4) > 0
    open = calls ? `call_${hex(numbers, 12)}` : undefined
    const answer = Prompt.makeMessage("assistant", {
      content: [
        text(said(numbers, size(calls ? 200 : 2_000))),
        ...(open === undefined
          ? []
          : [
              Prompt.makePart("tool-call", {
                id: open,
                name: "read_file",
                params: { path: `src/${hex(numbers, 5)}/main.ts`, limit: numbers.below(900), mode: "exact" },
                providerExecuted: false
              })
            ])
      ]
    })
    return { before, answer }
  })
  return {
    name,
    tools: results.length > 0 ? tools : [],
    system: Prompt.makeMessage("system", { content: said(numbers, 3_000) }),
    turns
  }
}

const inEnglish = prose(english, " ")
const inChinese = prose(chinese, "")
const inJapanese = prose(japanese, "")
const inRussian = prose(russian, " ")

export const talks: ReadonlyArray<Talk> = [
  talk("English", 1, inEnglish, []),
  talk("English, with code", 2, inEnglish, [code]),
  talk("English, with JSON", 3, inEnglish, [json]),
  talk("English, with code, JSON and logs", 4, inEnglish, [code, json, log]),
  talk("Chinese", 5, inChinese, []),
  talk("Chinese, with JSON and code", 6, inChinese, [json, code]),
  talk("Japanese", 7, inJapanese, []),
  talk("Japanese, with logs", 8, inJapanese, [log]),
  talk("Russian", 9, inRussian, []),
  talk("Russian, with JSON", 10, inRussian, [json]),
  talk(
    "all languages, with all kinds of results",
    11,
    (random, size) => random.of([inEnglish, inChinese, inJapanese, inRussian])(random, size),
    [code, json, log, inChinese]
  ),
  talk("English with images", 12, inEnglish, [code, json], 5),
  talk("Chinese with images", 13, inChinese, [], 7)
]
