// What came last, for a tab whose page was made before it came and that listens only since.
const KEPT_CHANGES = 100;

export class Latest {
  constructor() {
    this.live = { type: "live", since: null };
    this.health = null;
    this.changes = [];
  }

  keep(message) {
    if (message.type === "live") this.live = message;
    if (message.type === "health") this.health = message;
    if (message.type === "change" && message.data.id > (this.changes.at(-1)?.data.id ?? 0)) this.changes.push(message);
    if (this.changes.length > KEPT_CHANGES) this.changes.shift();
  }

  /** The messages for a page that knows all changes up to that id. */
  after(id) {
    const state = this.health === null ? [this.live] : [this.live, this.health];
    return [...state, ...this.changes.filter(({ data }) => data.id > id)];
  }
}
