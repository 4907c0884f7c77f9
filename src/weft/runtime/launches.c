/* Launches of kernels on a GPU, one after another: a driver's call each, none of Python's.
 *
 * The driver's function is given by its address, so that no header of it is needed. This follows
 * `pool.c`.
 */

typedef int32_t launch_kernel(void *kernel, uint32_t groups, uint32_t groups_y, uint32_t groups_z,
                              uint32_t items, uint32_t items_y, uint32_t items_z, uint32_t shared,
                              void *queue, void **parameters, void **extra);

/* What Python fills in; the parameters of a launch begin at `first`. */
typedef struct {
    void *kernel;
    int64_t groups, items, first;
} queued;

enum { INVALID_VALUE = 1 }; /* of the driver's: of what it was given */

/* The driver's status: 0, or that of the launch that it refused. */
int32_t weft_launch(launch_kernel *launch, void *queue, const queued *launches, int64_t count,
                    void **parameters) {
    for (int64_t k = 0; k < count; k++) {
        const queued *l = launches + k;
        if (l->groups > INT32_MAX) return INVALID_VALUE; /* it would not see the upper half */
        int32_t status = launch(l->kernel, (uint32_t)l->groups, 1, 1, (uint32_t)l->items, 1, 1, 0,
                                queue, parameters + l->first, NULL);
        if (status) return status;
    }
    return 0;
}
