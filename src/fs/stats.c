/*
 * .tasd/stats: what the mount is, how it serves, and counters; a name and a
 * value a line.
 */
#include "fs.h"
#include <unistd.h>

static const char *mode_name(enum tasd_fs_mode mode)
{
	switch (mode) {
	case TASD_FS_MODE_CACHED:
		return "cached";
	case TASD_FS_MODE_DIRECT:
		return "direct";
	case TASD_FS_MODE_AUTO:
		break;
	}
	return "auto";
}

void tasd_stats_text(struct tasd_fs *fs, struct tasd_buf *text)
{
	const struct tasd_stats *s = &fs->stats;
	const char *why =
		__atomic_load_n(&fs->no_passthrough, __ATOMIC_RELAXED);
	const struct {
		const char *name;
		const uint64_t *value;
	} counters[] = {
		{"lookups", &s->lookups},
		{"forgets", &s->forgets},
		{"opens_passthrough", &s->opens_passthrough},
		{"opens_direct", &s->opens_direct},
		{"opens_cached", &s->opens_cached},
		{"reads", &s->reads},
		{"read_bytes", &s->read_bytes},
		{"read_errors", &s->read_errors},
		{"containers_read", &s->containers_read},
		{"stale", &s->stale},
		{"notified", &s->notified},
	};
	uint64_t count;

	tasd_buf_printf(text, "version %s\n", TASD_VERSION);
	tasd_buf_printf(text, "pid %d\n", (int)getpid());
	tasd_buf_printf(text, "mode %s\n", mode_name(fs->options.mode));
	if (__atomic_load_n(&fs->can_passthrough, __ATOMIC_RELAXED))
		tasd_buf_str(text, "passthrough yes\n");
	else
		tasd_buf_printf(text, "passthrough no: %s\n",
			why ? why : "not tried yet");
	tasd_buf_printf(text, "mmap_of_direct_files %s\n",
		fs->can_map_direct ? "yes" : "no: needs Linux 6.6");
	pthread_mutex_lock(&fs->table.lock);
	count = fs->table.count;
	pthread_mutex_unlock(&fs->table.lock);
	tasd_buf_printf(text, "nodes %llu\n", (unsigned long long)count);
	for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
		tasd_buf_printf(text, "%s %llu\n", counters[i].name,
			(unsigned long long)__atomic_load_n(
				counters[i].value, __ATOMIC_RELAXED));
}
