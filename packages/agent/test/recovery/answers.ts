/** Sample answers to cut, in different styles. None of them repeats itself where it matters. */

const prose = `The committee met on Tuesday, a little after ten. Nobody had read the report, though everybody had an opinion on it; the chair, who had written half of it, said nothing for most of an hour.

"We could wait," Anna suggested. That was what they had done in March, and in June as well. This time, however, the roof was leaking, and the estimate (€14,300, without the gutters) had been on the table for six weeks. So they voted: seven for, two against, and Mr Öztürk asleep. Work begins on Monday.`

const code = `Here is the handler:

\`\`\`ts
export const handler = async (request: Request): Promise<Response> => {
  const { id, limit = 20 } = await parse(request)
  if (id === undefined) {
    return new Response("id is missing", { status: 400 })
  }
  const rows = await db.query(sql\`select * from notes where owner = \${id}\`)
  for (const row of rows.slice(0, limit)) {
    if (row.deletedAt !== null) continue
    await audit.write({ kind: "read", note: row.id, by: id })
  }
  return Response.json({ count: rows.length, items: rows })
}
\`\`\`

It refuses a request without an id, and writes one line of audit for each note.`

const json = JSON.stringify(
  {
    order: { id: "A-1093", placed: "2026-03-14T09:26:53Z", express: true },
    customer: { name: "Zoë Kähler", city: "Łódź", phones: ["+48 22 555 01 30", "+48 42 555 77 12"] },
    lines: [
      { sku: "LMP-04", title: "Desk lamp, brass", quantity: 2, price: 39.5 },
      { sku: "CBL-19", title: "Cable (3 m)", quantity: 5, price: 4.25, note: "black only" }
    ],
    total: 100.25
  },
  null,
  2
)

const chinese = `会议在星期二上午十点开始。报告没有人读过,但是每个人都有自己的看法;主席写了其中的一半,却在将近一个小时里一句话也没说。安娜建议再等一等,三月和六月他们都是这样做的。然而这一次屋顶漏水了,一万四千三百欧元的报价(不包括排水沟)已经在桌上放了六个星期。于是大家投票:七票赞成,两票反对,还有一位先生睡着了。工程从下周一开始,预计需要二十个工作日,费用由保险公司承担一半。`

const emoji = `Launch day! 🚀 The team 👩‍🚀👨🏽‍💻 pushed the button at 09:00, and the dashboards went 🟢 one after the other. Café orders: 3 × ☕️, 1 × 🍵, and a 🥐 for Zoe\u0308. 🇳🇴 was first with 412 users 📈, then 🇯🇵 (388) and 🇧🇷 (275). One hiccup 🐛: the 🛒 forgot its items on reload, fixed by lunch 🍜. Tomorrow we write it all down 📝 — and sleep 😴💤.`

export const answers = { prose, code, json, chinese, emoji }
